//! A code cache that somebody has been at.

use crate::arena::{Arena, case, said};
use pith_plugin::{Limits, PluginSource};
use pith_tests::{Behaviour, Bench, Guest, plugin_source};
use serde_json::json;
use std::{
    fs::{self, File, FileTimes, Permissions},
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

fn source(words: &str) -> PluginSource {
    let guest = Guest::new().tool("fine", Behaviour::Fine(words.to_owned()));
    plugin_source("kept", guest.component(), &["tools"], Limits::default())
}

/// Loads it with this cache and calls it: whatever lies there, it works as it was written. Gives what the user is told.
async fn works(plugin: &PluginSource, cache: &Path) -> String {
    let (plugin, cache) = (plugin.clone(), cache.to_owned());
    let loading = tokio::task::spawn_blocking(move || Bench::load(vec![plugin], &cache));
    let bench = loading.await.expect("no panic").expect("it loads");
    assert_eq!(said(&bench, "fine", json!({})).await, ("as written".to_owned(), false));
    bench.host.notices().iter().map(|notice| notice.text.clone()).collect()
}

fn file(cache: &Path, end: &str) -> PathBuf {
    let mut found = fs::read_dir(cache).unwrap().map(|entry| entry.unwrap().path());
    found.find(|path| path.to_string_lossy().ends_with(end)).unwrap_or_else(|| panic!("no {end}"))
}

/// A case with a cache that holds this plugin's code.
async fn kept(name: &str, body: impl AsyncFn(&Arena, &PluginSource, &Path)) {
    case(name, &[], async |arena| {
        let folder = tempfile::tempdir().unwrap();
        let (plugin, cache) = (source("as written"), folder.path().join("compiled"));
        assert_eq!(works(&plugin, &cache).await, "");
        body(arena, &plugin, &cache).await;
        assert_eq!(works(&plugin, &cache).await, "", "the next start finds it whole");
    })
    .await;
}

/// Hostile case 21.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poisoned_truncated_replaced() {
    kept("compiled code with a changed byte, size and time kept", async |_, plugin, cache| {
        let path = file(cache, ".cwasm");
        let (whole, met) = (fs::read(&path).unwrap(), fs::metadata(&path).unwrap());
        for n in 0..40 {
            let mut bytes = whole.clone();
            bytes[whole.len() * n / 40] ^= 0x40;
            fs::write(&path, bytes).unwrap();
            let times = FileTimes::new().set_modified(met.modified().unwrap());
            File::options().write(true).open(&path).unwrap().set_times(times).unwrap();
            let told = works(plugin, cache).await;
            assert!(told.contains("was not what was written there"), "{told}");
            assert_eq!(fs::read(&path).unwrap(), whole);
        }
    })
    .await;
    kept("compiled code that was cut", async |_, plugin, cache| {
        let path = file(cache, ".cwasm");
        let whole = fs::read(&path).unwrap();
        for n in 0..20 {
            fs::write(&path, &whole[..whole.len() * n / 20]).unwrap();
            assert!(works(plugin, cache).await.contains("was not what was written there"));
        }
    })
    .await;
    kept("compiled code replaced by another plugin's", async |_, plugin, cache| {
        let other = tempfile::tempdir().unwrap();
        let elsewhere = other.path().join("compiled");
        let evil = source("pwned");
        tokio::task::spawn_blocking({
            let elsewhere = elsewhere.clone();
            move || Bench::load(vec![evil], &elsewhere).map(drop)
        })
        .await
        .unwrap()
        .unwrap();
        fs::copy(file(&elsewhere, ".cwasm"), file(cache, ".cwasm")).unwrap();
        assert!(works(plugin, cache).await.contains("was not what was written there"));
        fs::copy(file(&elsewhere, ".specs.json"), file(cache, ".specs.json")).unwrap();
        works(plugin, cache).await;
    })
    .await;
    kept("compiled code replaced by a link, a FIFO, a device's link, a folder", async |_, plugin, cache| {
        let path = file(cache, ".cwasm");
        let away = cache.join("away");
        fs::rename(&path, &away).unwrap();
        for make in [
            (|path: &Path, away: &Path| symlink(away, path).unwrap()) as fn(&Path, &Path),
            |path, _| symlink("/dev/zero", path).unwrap(),
            |path, _| symlink("/etc/passwd", path).unwrap(),
            |path, _| rustix::fs::mkfifoat(rustix::fs::CWD, path, 0o600.into()).unwrap(),
        ] {
            make(&path, &away);
            assert!(works(plugin, cache).await.contains("was not what was written there"));
            assert!(fs::symlink_metadata(&path).unwrap().is_file());
            fs::remove_file(&path).unwrap();
        }
        fs::create_dir(&path).unwrap();
        works(plugin, cache).await;
        fs::remove_dir(&path).unwrap();
        works(plugin, cache).await;
    })
    .await;
    kept("a cache that others may write to", async |_, plugin, cache| {
        fs::set_permissions(cache, Permissions::from_mode(0o777)).unwrap();
        let told = works(plugin, cache).await;
        assert!(told.contains("others may enter it"), "{told}");
        fs::set_permissions(cache, Permissions::from_mode(0o700)).unwrap();
    })
    .await;
}

/// Somebody puts another file in the place of the code, and the right one back, all the time: between the look and the mapping too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replaced_between_look_and_mapping() {
    kept("compiled code replaced while it is looked at, 300 times", async |_, plugin, cache| {
        let path = file(cache, ".cwasm");
        let whole = fs::read(&path).unwrap();
        let mut poisoned = whole.clone();
        let middle = poisoned.len() / 2;
        poisoned[middle..].fill(0x90);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let new = cache.join("new");
                while !over.load(Ordering::Relaxed) {
                    for bytes in [&poisoned, &whole] {
                        fs::write(&new, bytes).unwrap();
                        fs::rename(&new, &path).unwrap();
                    }
                }
            });
            let handle = tokio::runtime::Handle::current();
            tokio::task::block_in_place(|| {
                for _ in 0..300 {
                    handle.block_on(works(plugin, cache));
                }
            });
            over.store(true, Ordering::Relaxed);
        });
        works(plugin, cache).await;
    })
    .await;
}
