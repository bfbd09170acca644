//! What does not start, and what it is told.

use crate::{
    guests::{Tool, component, tool},
    house::House,
};
use pith_core::Tools;
use pith_plugin::{LoadError, PluginCode};
use std::path::PathBuf;

#[track_caller]
fn refused(bytes: Vec<u8>, grants: &[&str]) -> LoadError {
    House::with(&[("mine", bytes, grants)]).load().err().expect("it must not start")
}

#[track_caller]
fn unknown(text: &str, name: &str) {
    let error = refused(wat::parse_str(text).unwrap(), &["tools"]);
    let LoadError::UnknownInterface { interface, .. } = &error else { panic!("{error}") };
    assert_eq!(interface, name);
    assert!(error.to_string().contains(name), "{error}");
}

#[test]
fn every_missing_grant_is_named_with_the_argument_that_gives_it() {
    let stop = r#"(import "pith:plugin/process@0.1.0" "stop-detached" (func $stop (param i32 i32 i32)))"#;
    let scan = r#"(import "pith:plugin/scan@0.1.0" "run" (func $scan (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))"#;
    let guest = Tool {
        world: "import pith:plugin/process@0.1.0; import pith:plugin/scan@0.1.0;",
        imports: &format!("{stop}{scan}"),
        body: &format!(
            "(call $stop (i32.const 0) (i32.const 0) (i32.const 16)) (call $scan {}) unreachable",
            "(i32.const 0)".repeat(15)
        ),
        ..Tool::default()
    }
    .build();
    let error = refused(guest.clone(), &[]);
    let all = ["--grant mine:tools", "--grant mine:files=workspace", "--grant mine:process=PROGRAM"];
    assert_eq!(error.grant_arguments(), all);
    for argument in all {
        assert!(error.to_string().contains(argument), "{error}");
    }
    assert_eq!(refused(guest.clone(), &["tools", "process=git"]).grant_arguments(), ["--grant mine:files=workspace"]);
    let house = House::with(&[("mine", guest, &["tools", "process=git", "files=workspace"])]);
    assert_eq!(house.load().unwrap().offered()[0].authorities, ["process=git", "files=workspace:r"]);
}

#[test]
fn what_is_no_component_is_refused_by_content() {
    let engine = wasmtime::Engine::default();
    let whole = tool("unreachable");
    let native = engine.precompile_component(&whole).unwrap();
    assert!(matches!(refused(native, &["tools"]), LoadError::Precompiled { .. }));
    let core = wat::parse_str("(module)").unwrap();
    let error = refused(core, &["tools"]);
    assert!(matches!(error, LoadError::CoreModule { .. }) && error.to_string().contains("wasm32-wasip2"), "{error}");
    assert!(matches!(refused(b"(component)".to_vec(), &[]), LoadError::NotAComponent { .. }));
    assert!(matches!(refused(Vec::new(), &[]), LoadError::NotAComponent { .. }));
    for length in [9, whole.len() / 2, whole.len() - 1] {
        let error = refused(whole[..length].to_vec(), &["tools"]);
        assert!(matches!(error, LoadError::Compile { .. }), "{length}: {error}");
    }
    let mut long = whole;
    long.resize(pith_plugin::limits::COMPONENT_BYTES + 1, 0);
    assert!(matches!(refused(long, &["tools"]), LoadError::TooLarge { .. }));
}

#[test]
fn an_interface_that_is_not_served_is_refused_by_name() {
    unknown(r#"(component (import "log" (func (param "msg" string))))"#, "log");
    unknown(r#"(component (import "pith:plugin/root@0.1.0" (instance)))"#, "pith:plugin/root@0.1.0");
    unknown(r#"(component (import "pith:plugin/log@0.2.0" (instance)))"#, "pith:plugin/log@0.2.0");
    unknown(r#"(component (import "pith:plugin/storage@0.1.0" (instance)))"#, "pith:plugin/storage@0.1.0");
    unknown(r#"(component (import "wasi:keyvalue/store@0.2.0" (instance)))"#, "wasi:keyvalue/store@0.2.0");
    unknown(r#"(component (import "wasi:cli/environment@0.3.0" (instance)))"#, "wasi:cli/environment@0.3.0");
    let export = |name: &str| format!(r#"(component (instance $i) (export "{name}" (instance $i)))"#);
    for name in ["pith:plugin/request-hook@0.1.0", "pith:plugin/tool-gate@0.2.0", "pith:other/tool-gate@0.1.0"] {
        unknown(&export(name), name);
    }
}

#[test]
fn a_named_interface_of_another_shape_does_not_link() {
    let text = r#"(component (import "pith:plugin/log@0.1.0" (instance (export "shout" (func)))))"#;
    assert!(matches!(refused(wat::parse_str(text).unwrap(), &["tools"]), LoadError::Link { .. }));
}

#[test]
fn http_is_asked_for_by_its_presence() {
    let bytes = wat::parse_str(r#"(component (import "wasi:http/outgoing-handler@0.2.6" (instance)))"#).unwrap();
    assert_eq!(refused(bytes.clone(), &["tools"]).grant_arguments(), ["--grant mine:http=https://HOST"]);
    assert!(matches!(refused(bytes, &["http=https://a.example"]), LoadError::UnknownInterface { .. }));
}

#[test]
fn kept_folders_are_given_to_nobody() {
    let mut house = House::with(&[("mine", tool("unreachable"), &["tools", "files=workspace:rw"])]);
    for kept in [house.work(), house.work().join("in/it"), house.work().parent().unwrap().to_owned()] {
        house.reserved = vec![kept];
        let error = house.load().err().unwrap();
        assert!(matches!(error, LoadError::Folder { .. }), "{error}");
    }
    house.reserved.clear();
    house.load().unwrap();
    // By a link, too.
    house.reserved = vec![house.work()];
    std::os::unix::fs::symlink(house.work(), house.at("link")).unwrap();
    let grant = format!("files={}", house.at("link").display());
    house.plugins[0].grants = vec!["tools".parse().unwrap(), grant.parse().unwrap()];
    assert!(matches!(house.load(), Err(LoadError::Folder { .. })));
    // And where the reserved folder is named by one, and is not there yet.
    std::os::unix::fs::symlink(house.dir.path(), house.at("up")).unwrap();
    house.reserved = vec![house.at("up/work/not/there")];
    house.plugins[0].grants = vec!["tools".parse().unwrap(), "files=workspace".parse().unwrap()];
    assert!(matches!(house.load(), Err(LoadError::Folder { .. })));
    house.reserved.clear();
    house.plugins[0].grants =
        vec!["tools".parse().unwrap(), format!("files={}", house.cache().display()).parse().unwrap()];
    assert!(matches!(house.load(), Err(LoadError::Folder { .. })), "compiled code is kept from plugins in any case");
    for system in ["/proc/self", "/dev", "/"] {
        house.plugins[0].grants = vec!["tools".parse().unwrap(), format!("files={system}").parse().unwrap()];
        assert!(matches!(house.load(), Err(LoadError::Folder { .. })), "{system}");
    }
    house.plugins[0].grants = vec!["tools".parse().unwrap(), "files=/not/there".parse().unwrap()];
    assert!(matches!(house.load(), Err(LoadError::FolderUnusable { .. })));
}

/// Hostile case 7.
#[test]
fn the_later_of_two_tools_with_one_name_is_left_out_by_name() {
    let named = |name| Tool { name, ..Tool::default() }.build();
    let mut house = House::with(&[
        ("first", named("read-file"), &["tools"]),
        ("second", named("read_file"), &["tools"]),
        ("third", named("bash"), &["tools"]),
        ("fourth", named("mcp__x__y"), &["tools"]),
        ("fifth", named("Bad Name"), &["tools"]),
    ]);
    house.reserved_tools = vec!["bash".to_owned()];
    let host = house.load().unwrap();
    let offered: Vec<String> = host.offered().iter().map(|tool| tool.spec.name.clone()).collect();
    assert_eq!(offered, ["read-file"]);
    let told: Vec<String> = host.notices().iter().map(|notice| format!("{}: {}", notice.plugin, notice.text)).collect();
    assert_eq!(
        told,
        [
            "second: its tool read_file is not offered: plugin first has one called read-file",
            "third: its tool bash is not offered: this name is reserved for a tool that comes with Pith",
            "fourth: its tool mcp__x__y is not offered: names that begin with mcp__ are reserved",
            "fifth: its tool \"Bad Name\" is not offered: a name is a-z, 0-9, _ and -, at most 64 characters",
        ]
    );
    house.plugins[2].is_shipped = true;
    let host = house.load().unwrap();
    assert!(host.offered().iter().any(|tool| tool.spec.name == "bash" && tool.served_by == "local:test/third"));
}

#[test]
fn specs_that_fail_cost_that_plugin_its_tools_only() {
    let broken = Tool { name: "broken", specs: "unreachable", ..Tool::default() }.build();
    let looping = Tool { name: "looping", specs: "(loop $on (br $on))", ..Tool::default() }.build();
    let house = House::with(&[
        ("broken", broken, &["tools"]),
        ("looping", looping, &["tools"]),
        ("fine", tool("unreachable"), &["tools"]),
    ]);
    let host = house.load().unwrap();
    assert_eq!(host.offered().len(), 1);
    let told: Vec<&str> = host.notices().iter().map(|notice| notice.text.as_str()).collect();
    assert_eq!(
        told,
        [
            "its tools are not offered: tools.specs trapped: unreachable code, such as a panic",
            "its tools are not offered: tools.specs exceeded its deadline of 5 s",
        ]
    );
}

#[test]
fn files_and_names_are_checked() {
    let mut house = House::with(&[("mine", Vec::new(), &["tools"])]);
    house.plugins[0].code = PluginCode::File(house.at("none.wasm"));
    assert!(matches!(house.load(), Err(LoadError::Unreadable { .. })));
    rustix::fs::mknodat(rustix::fs::CWD, house.at("fifo.wasm"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    house.plugins[0].code = PluginCode::File(house.at("fifo.wasm"));
    assert!(matches!(house.load(), Err(LoadError::Unreadable { .. })));
    let path: PathBuf = house.at("good.wasm");
    std::fs::write(&path, tool("unreachable")).unwrap();
    house.plugins[0].code = PluginCode::File(path);
    assert_eq!(house.load().unwrap().offered().len(), 1);
    house.plugins.push(house.plugins[0].clone());
    assert!(matches!(house.load(), Err(LoadError::RepeatedName { .. })));
    house.plugins[1].name = "Not A Name".to_owned();
    assert!(matches!(house.load(), Err(LoadError::Name { .. })));
}

/// What a component does not export costs nothing, and what it exports beside the contract is not called.
#[test]
fn a_component_that_offers_nothing_loads() {
    let house = House::with(&[(
        "plain",
        component("export run: func();", r#"(module (func (export "run") unreachable))"#),
        &[],
    )]);
    assert_eq!(house.load().unwrap().offered().len(), 0);
}
