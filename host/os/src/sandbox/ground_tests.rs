use super::*;

fn ground(dir: &Path) -> SandboxGround {
    let at = |name: &str| dir.join(name);
    SandboxGround {
        reserved: vec![at("x/config/pith"), at("x/data")],
        kept: vec![at("work")],
        ..SandboxGround::default()
    }
}

/// Not in `/tmp`, most of which a sandbox hides.
fn place() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

#[test]
fn reserved_folders_are_made_and_what_leads_to_them_is_pinned() {
    let dir = place();
    let top = dir.path().canonicalize().unwrap();
    std::fs::create_dir(top.join("work")).unwrap();
    let plan = Plan::of(&ground(&top)).unwrap();
    assert_eq!(plan.covers, [top.join("x/config/pith"), top.join("x/data")]);
    for (folder, mode) in [("x/config/pith", 0o700), ("x/data", 0o700)] {
        assert_eq!(std::fs::metadata(top.join(folder)).unwrap().permissions().mode() & 0o777, mode);
    }
    for way in ["", "x", "x/config"] {
        let way = if way.is_empty() { top.clone() } else { top.join(way) };
        assert!(plan.pins.contains(&way), "{}: {:?}", way.display(), plan.pins);
    }
    assert!(plan.pins.is_sorted());
    assert!(!plan.pins.contains(&PathBuf::from("/")) && !plan.pins.iter().any(|pin| pin.starts_with(top.join("work"))));
    assert!(plan.hides(&top.join("x/data/sessions")) && !plan.hides(&top.join("work")));
}

#[test]
fn links_that_can_be_replaced_are_gaps_and_what_they_lead_to_is_covered() {
    let dir = place();
    let top = dir.path().canonicalize().unwrap();
    std::fs::create_dir_all(top.join("dots/config")).unwrap();
    std::fs::create_dir(top.join("x")).unwrap();
    std::os::unix::fs::symlink(top.join("dots/config"), top.join("x/config")).unwrap();
    let plan = Plan::of(&ground(&top)).unwrap();
    assert!(plan.covers.contains(&top.join("dots/config/pith")), "{:?}", plan.covers);
    assert!(plan.gaps.contains(&SandboxGap::Link(top.join("x/config"))), "{:?}", plan.gaps);
    assert!(plan.pins.contains(&top.join("dots/config")));
}

#[test]
fn a_file_in_the_way_is_held_and_a_reserved_folder_within_another_counts_once() {
    let dir = place();
    let top = dir.path().canonicalize().unwrap();
    std::fs::write(top.join("x"), "").unwrap();
    let reserved = vec![top.join("x/config"), top.join("a"), top.join("a/b"), PathBuf::from("/dev/null/pith")];
    let plan = Plan::of(&SandboxGround { reserved, ..SandboxGround::default() }).unwrap();
    assert_eq!(plan.covers, [top.join("a")]);
    assert!(plan.pins.contains(&top.join("x")), "{:?}", plan.pins);
}

#[test]
fn what_lies_in_temp_is_hidden_but_for_what_is_kept() {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let top = dir.path().canonicalize().unwrap();
    let temp = top.join("own");
    for folder in ["work", "own", "home/sub"] {
        std::fs::create_dir_all(top.join(folder)).unwrap();
    }
    let kept = vec![top.join("work"), top.join("home"), top.join("home/sub"), top.join("none")];
    let reserved = vec![top.join("data"), top.join("home/.config/pith")];
    let plan =
        Plan::of(&SandboxGround { reserved, kept, temp: Some(temp.clone()), ..SandboxGround::default() }).unwrap();
    assert_eq!(plan.kept, [top.join("home"), top.join("work")]);
    assert_eq!(plan.steps, std::slice::from_ref(&top));
    let name = top.file_name().unwrap();
    assert!(temp.join(name).join("home").is_dir() && temp.join(name).join("work").is_dir());
    assert_eq!(plan.covers, [top.join("home/.config/pith")], "what is not there needs no cover");
    assert!(plan.hides(&top.join("own")) && !plan.hides(&top.join("home/x")));

    let plan = Plan::of(&SandboxGround { kept: vec!["/tmp".into()], ..SandboxGround::default() }).unwrap();
    assert!(plan.gaps.contains(&SandboxGap::WorkInTemp) && plan.temp_at.is_none());
}

#[test]
fn other_names_of_a_folder_are_found_in_the_table_of_mounts() {
    let dir = place();
    let top = dir.path().canonicalize().unwrap();
    let mount = |line: String| Mount::read(line.as_bytes()).unwrap();
    std::fs::create_dir_all(top.join("home/data/part")).unwrap();
    std::fs::create_dir_all(top.join("elsewhere")).unwrap();
    let shown = top.display();
    let mounts = [
        mount("1 0 8:1 / / rw - ext4 /dev/x rw".to_owned()),
        // The part of the reserved folder, shown elsewhere; and a file system of another device.
        mount(format!("2 1 8:1 {shown}/home/data/part {shown}/elsewhere rw - ext4 /dev/x rw")),
        mount(format!("3 1 8:2 {shown}/home {shown}/elsewhere rw - ext4 /dev/y rw")),
    ];
    assert_eq!(aliases(&top.join("home/data"), &mounts), [top.join("elsewhere")]);
    assert_eq!(aliases(&top.join("elsewhere2"), &mounts), Vec::<PathBuf>::new());
    assert_eq!(unescaped(br"/a\040b\134\011c\9"), PathBuf::from("/a b\\\tc\\9"));
}

#[test]
fn a_childs_environment_leads_to_no_agent_and_to_a_temp_that_is_there() {
    let ground = SandboxGround { kept: vec!["/tmp/kept".into()], ..SandboxGround::default() };
    let of = |pairs: &[(&str, &str)]| {
        let env = pairs.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
        let env = ground.environment_of_child(env);
        env.iter().map(|(name, value)| format!("{}={}", name.display(), value.display())).collect::<Vec<_>>()
    };
    assert_eq!(of(&[("SSH_AUTH_SOCK", "/a"), ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/b"), ("A", "b")]), ["A=b"]);
    assert_eq!(of(&[("DOCKER_HOST", "unix:///x"), ("CONTAINER_HOST", "tcp://h:1")]), ["CONTAINER_HOST=tcp://h:1"]);
    assert_eq!(of(&[("TMPDIR", "/run/user/1000")]), ["TMPDIR=/tmp"]);
    assert_eq!(of(&[("TMPDIR", "/tmp/other")]), ["TMPDIR=/tmp"]);
    assert_eq!(of(&[("TMPDIR", "/tmp/kept/t")]), ["TMPDIR=/tmp/kept/t"]);
    assert_eq!(of(&[("TMPDIR", "/var/tmp")]), ["TMPDIR=/var/tmp"]);
}
