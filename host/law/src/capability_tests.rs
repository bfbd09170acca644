use super::*;
use proptest::prelude::*;

#[track_caller]
fn refused(text: &str, part: &str) {
    let error = parse_grant(text).expect_err(text).to_string();
    assert!(error.contains(part), "{text}: {error}");
}

#[test]
fn grants_are_read_and_written_in_one_form() {
    for (text, form) in [
        ("mine:files=workspace", "mine:files=workspace:r"),
        ("mine:files=workspace:rw", "mine:files=workspace:rw"),
        ("mine:files=/a/./b/:rw", "mine:files=/a/b:rw"),
        ("mine:files=/a:r:rw", "mine:files=/a:r:rw"),
        ("mine:process=git", "mine:process=git"),
        ("mine:process=env:FOO", "mine:process=env:FOO"),
        ("mine:tool-filter", "mine:tool-filter"),
        ("mine:dialog", "mine:dialog"),
        ("mine:http=https://a.example/x=y", "mine:http=https://a.example/x=y"),
        ("mine:agent", "mine:agent"),
    ] {
        assert_eq!(parse_grant(text).map(|grant| grant.to_string()), Ok(form.to_owned()), "{text}");
    }
}

#[test]
fn what_is_no_grant_is_refused_with_the_way_out() {
    refused("mine", "NAME:CAPABILITY");
    refused(":tools", "NAME:CAPABILITY");
    refused("my tool:tools", "NAME:CAPABILITY");
    refused("_:tools", "NAME:CAPABILITY");
    assert_eq!(parse_grant("My_Tool.v2:tools").unwrap().plugin, "my-tool-v2");
    refused("mine:fils=workspace", "tool-gate");
    refused("mine:fils=workspace", "files, process, http");
    refused("mine:tools=x", "no bound");
    refused("mine:files", "files=workspace|spool");
    refused("mine:files=home", "no absolute path");
    refused("mine:files=/..", "no absolute path");
    refused("mine:files=spool:rw", "never writable");
    refused("mine:files=/a\u{7}b", "control");
    refused("mine:process", "process=PROGRAM");
    refused("mine:process=./git", "bare name");
    refused("mine:process=/bin/git", "bare name");
    refused("mine:process=git status", "bare name");
    refused("mine:process=*", "bare name");
    refused("mine:process=env:LD_PRELOAD", "which code");
    refused("mine:process=env:Git_Config", "which code");
    refused("mine:process=env:PATH", "which code");
    refused("mine:process=env:A B", "letters");
    refused("mine:http", "http=https://HOST");
    refused("mine:dialog=x", "no bound");
    refused(&format!("mine:files=/{}", "a".repeat(5000)), "no capability");
}

fn any_capability() -> impl Strategy<Value = Capability> {
    let folder = prop_oneof![
        Just(Folder::Workspace),
        Just(Folder::PluginData),
        Just(Folder::Temp),
        "(/[a-zA-Z0-9 .:=_-]{1,8}){1,4}".prop_filter_map("normalised", |path| {
            let plain = normalise(Path::new(&path))?;
            plain.file_name()?;
            Some(Folder::Path(plain))
        }),
    ];
    let access = prop_oneof![Just(Access::Read), Just(Access::ReadWrite)];
    const BOUNDED: &[Authority] = &[Authority::Http, Authority::Secrets, Authority::ToolCalls, Authority::Models];
    prop_oneof![
        prop::sample::select(Export::ALL).prop_map(Capability::Export),
        (folder, access).prop_map(|(folder, access)| Capability::Files(FilesBound { folder, access })),
        "[a-zA-Z0-9+][a-zA-Z0-9+._-]{0,12}".prop_map(|name| Capability::Process(ProcessBound::Program(name))),
        "X[A-Z0-9_]{0,12}".prop_map(|name| Capability::Process(ProcessBound::Variable(name))),
        (prop::sample::select(BOUNDED), "[ -~]{1,30}").prop_map(|(a, bound)| Capability::Authority(a, Some(bound))),
        Just(Capability::Authority(Authority::Ui, None)),
    ]
}

proptest! {
    #[test]
    fn text_and_capability_are_one_to_one(capability in any_capability()) {
        prop_assert_eq!(capability.to_string().parse::<Capability>(), Ok(capability));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,60}") {
        if let Ok(grant) = parse_grant(&text) {
            prop_assert_eq!(parse_grant(&grant.to_string()), Ok(grant));
        }
    }
}
