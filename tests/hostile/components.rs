//! Files that are offered as plugins and are none, or are broken.

use crate::arena::{Arena, case};
use futures::FutureExt;
use pith_plugin::{Limits, LoadError, PluginCode, PluginSource};
use pith_tests::{Behaviour, Bench, Guest, plugin_source};
use serde_json::json;
use std::{borrow::Cow, panic::AssertUnwindSafe, path::Path, time::Duration};

/// Components damaged by cutting.
const CUTS: usize = 200;
/// Components damaged by a changed bit.
const FLIPS: usize = 500;

fn source(component: impl Into<Cow<'static, [u8]>>) -> PluginSource {
    let limits = Limits { tool_deadline: Duration::from_millis(300), ..Limits::default() };
    plugin_source("offered", component, &["tools", "tool-gate", "tool-filter"], limits)
}

/// Loads it on a thread where blocking is no harm, in a cache of its own.
async fn load(plugin: PluginSource, cache: &Path) -> Result<Bench, LoadError> {
    let cache = cache.to_owned();
    tokio::task::spawn_blocking(move || Bench::load(vec![plugin], &cache)).await.expect("loading does not panic")
}

async fn refused(arena: &Arena, component: Vec<u8>) -> LoadError {
    let cache = tempfile::tempdir().unwrap();
    let error = load(source(component), &cache.path().join("compiled")).await.err().expect("it is refused");
    let text = error.to_string();
    assert!(text.contains("offered") && !text.contains('\u{1b}') && text.len() < 4_000, "{text:?}");
    arena.fine("ls", json!({}), "bystander.txt").await;
    error
}

fn small() -> Vec<u8> {
    Guest::new().tool("fine", Behaviour::Fine("all well".into())).gate(Behaviour::Fine(String::new())).component()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_component_cut_at_two_hundred_places() {
    case("a component cut at 200 places", &[], async |arena| {
        let whole = small();
        let cache = tempfile::tempdir().unwrap();
        let mut loaded = 0;
        for n in 0..CUTS {
            let cut = whole.len() * n / CUTS;
            match load(source(whole[..cut].to_vec()), &cache.path().join("compiled")).await {
                // Cut between two sections it is a component, of less.
                Ok(bench) => {
                    let call = tokio::time::timeout(Duration::from_secs(10), bench.call("fine", json!({})));
                    call.await.unwrap_or_else(|_| panic!("{cut} of {} bytes: it does not end", whole.len()));
                    loaded += 1;
                }
                Err(error) => {
                    let is_told = matches!(error, LoadError::NotAComponent { .. } | LoadError::Compile { .. });
                    assert!(is_told, "{cut}: {error}");
                }
            }
        }
        assert!(loaded < CUTS / 5, "{loaded} loaded");
        arena.fine("ls", json!({}), "bystander.txt").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_component_with_a_changed_bit_at_five_hundred_places() {
    case("a component with one of 500 bits changed", &[], async |arena| {
        let whole = small();
        let cache = tempfile::tempdir().unwrap();
        let (mut loaded, mut answered) = (0, 0);
        for n in 0..FLIPS {
            let bit = whole.len() * 8 * n / FLIPS + n % 8;
            let mut changed = whole.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let Ok(bench) = load(source(changed), &cache.path().join("compiled")).await else { continue };
            loaded += 1;
            // What still loads may do anything that a guest may; it ends, and takes nobody with it.
            let call = AssertUnwindSafe(bench.call("fine", json!({}))).catch_unwind();
            let ended = tokio::time::timeout(Duration::from_secs(10), call).await.expect("it ends");
            answered += usize::from(!ended.expect("the host does not panic").output.is_error);
        }
        assert!(loaded > 0 && loaded < FLIPS && answered > 0, "{loaded} loaded, {answered} answered");
        arena.fine("ls", json!({}), "bystander.txt").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_component() {
    case("core modules, native code, words", &[], async |arena| {
        let core = Guest::new().tool("fine", Behaviour::Fine("x".into())).core_module();
        assert!(matches!(refused(arena, core).await, LoadError::CoreModule { .. }));
        for bytes in [&b""[..], b"(component)", b"\0asm", b"\0asm\x0d\0\x01", b"#!/bin/sh\n", b"\x1b[2J\x1b]0;x\x07"] {
            assert!(matches!(refused(arena, bytes.to_vec()).await, LoadError::NotAComponent { .. }));
        }
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert!(matches!(refused(arena, own[..1 << 20].to_vec()).await, LoadError::Precompiled { .. }));
        let mut unknown = b"\0asm\x0d\0\x01\0".to_vec();
        unknown.extend([0xff; 1 << 16]);
        assert!(matches!(refused(arena, unknown).await, LoadError::Compile { .. }));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn precompiled_code() {
    case("precompiled code, by its own name and as .wasm", &[], async |arena| {
        // What the host itself compiled: as native as it gets.
        let cache = tempfile::tempdir().unwrap();
        drop(load(source(small()), &cache.path().join("compiled")).await.expect("a good one loads"));
        let mut code = std::fs::read_dir(cache.path().join("compiled")).unwrap().map(|entry| entry.unwrap().path());
        let code = code.find(|path| path.extension().is_some_and(|is| is == "cwasm")).expect("compiled code");
        let bytes = std::fs::read(&code).unwrap();
        assert!(matches!(refused(arena, bytes.clone()).await, LoadError::Precompiled { .. }));
        let named = cache.path().join("plugin.wasm");
        std::fs::write(&named, &bytes).unwrap();
        for path in [code, named] {
            let plugin = PluginSource { code: PluginCode::File(path), ..source(Vec::new()) };
            let error = load(plugin, &cache.path().join("other")).await.err().expect("it is refused");
            assert!(matches!(error, LoadError::Precompiled { .. }), "{error}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_parts_than_an_instance_may_have() {
    case("a component of forty core instances", &[], async |arena| {
        let cache = tempfile::tempdir().unwrap();
        let bench =
            load(source(with_core_instances(small(), 40)), &cache.path().join("compiled")).await.expect("it loads");
        let told = &bench.host.notices()[0].text;
        assert!(told.contains("more than 32 core instances"), "{told}");
        arena.fine("ls", json!({}), "bystander.txt").await;
    })
    .await;
    case("a component of a hundred thousand core instances", &[], async |arena| {
        let cache = tempfile::tempdir().unwrap();
        // The compiler's own limits may be met first.
        let loaded = load(source(with_core_instances(small(), 100_000)), &cache.path().join("compiled")).await;
        assert!(loaded.map_or(true, |bench| bench.host.notices()[0].text.contains("more than 32")));
        arena.fine("ls", json!({}), "bystander.txt").await;
    })
    .await;
}

/// Appends an empty core module and so many instances of it.
fn with_core_instances(mut component: Vec<u8>, count: u32) -> Vec<u8> {
    let modules = sections(&component).filter(|id| *id == 1).count();
    component.extend([1, 8]);
    component.extend(b"\0asm\x01\0\0\0");
    let mut body = Vec::new();
    leb(&mut body, count);
    for _ in 0..count {
        body.push(0);
        leb(&mut body, u32::try_from(modules).unwrap());
        body.push(0);
    }
    component.push(2);
    leb(&mut component, u32::try_from(body.len()).unwrap());
    component.extend(body);
    component
}

/// The ids of a component's own sections.
fn sections(component: &[u8]) -> impl Iterator<Item = u8> {
    let mut at = 8;
    std::iter::from_fn(move || {
        let id = *component.get(at)?;
        at += 1;
        let (mut length, mut shift) = (0usize, 0);
        loop {
            let byte = component[at];
            at += 1;
            length |= usize::from(byte & 127) << shift;
            shift += 7;
            if byte < 128 {
                break;
            }
        }
        at += length;
        Some(id)
    })
}

fn leb(out: &mut Vec<u8>, mut number: u32) {
    while number >= 128 {
        out.push((number & 127) as u8 | 128);
        number >>= 7;
    }
    out.push(number as u8);
}
