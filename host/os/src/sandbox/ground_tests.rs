use super::super::view::{Layer, SandboxFolder, View};
use super::*;

fn of(ground: &SandboxGround) -> Plan {
    Plan::of(ground, SandboxBackend::Bubblewrap).unwrap()
}

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
    let plan = of(&ground(&top));
    assert_eq!(plan.covers, [top.join("x/config/pith"), top.join("x/data")]);
    for (folder, mode) in [("x/config/pith", 0o700), ("x/data", 0o700)] {
        assert_eq!(std::fs::metadata(top.join(folder)).unwrap().permissions().mode() & 0o777, mode);
    }
    for way in ["", "x", "x/config"] {
        let way = if way.is_empty() { top.clone() } else { top.join(way) };
        assert!(View::of(&plan, None).pins.contains(&way), "{}: {:?}", way.display(), View::of(&plan, None).pins);
    }
    assert!(View::of(&plan, None).pins.is_sorted());
    assert!(
        !View::of(&plan, None).pins.contains(&PathBuf::from("/"))
            && !View::of(&plan, None).pins.iter().any(|pin| pin.starts_with(top.join("work")))
    );
    assert!(
        View::of(&plan, None).hides(&top.join("x/data/sessions")) && !View::of(&plan, None).hides(&top.join("work"))
    );
}

#[test]
fn links_that_can_be_replaced_are_gaps_and_what_they_lead_to_is_covered() {
    let dir = place();
    let top = dir.path().canonicalize().unwrap();
    std::fs::create_dir_all(top.join("dots/config")).unwrap();
    std::fs::create_dir(top.join("x")).unwrap();
    std::os::unix::fs::symlink(top.join("dots/config"), top.join("x/config")).unwrap();
    let plan = of(&ground(&top));
    assert!(plan.covers.contains(&top.join("dots/config/pith")), "{:?}", plan.covers);
    assert!(plan.gaps.contains(&SandboxGap::Link(top.join("x/config"))), "{:?}", plan.gaps);
    assert!(View::of(&plan, None).pins.contains(&top.join("dots/config")));
}

#[test]
fn a_file_in_the_way_is_held_and_a_reserved_folder_within_another_counts_once() {
    let dir = place();
    let top = dir.path().canonicalize().unwrap();
    std::fs::write(top.join("x"), "").unwrap();
    let reserved = vec![top.join("x/config"), top.join("a"), top.join("a/b"), PathBuf::from("/dev/null/pith")];
    let plan = of(&SandboxGround { reserved, ..SandboxGround::default() });
    assert_eq!(plan.covers, [top.join("a")]);
    assert!(View::of(&plan, None).pins.contains(&top.join("x")), "{:?}", View::of(&plan, None).pins);
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
    let plan = of(&SandboxGround { reserved, kept, temp: Some(temp.clone()), ..SandboxGround::default() });
    assert_eq!(plan.kept, [top.join("home"), top.join("work")]);
    assert_eq!(plan.steps, std::slice::from_ref(&top));
    let name = top.file_name().unwrap();
    assert!(temp.join(name).join("home").is_dir() && temp.join(name).join("work").is_dir());
    assert_eq!(plan.covers, [top.join("home/.config/pith")], "what is not there needs no cover");
    assert!(View::of(&plan, None).hides(&top.join("own")) && !View::of(&plan, None).hides(&top.join("home/x")));

    let plan = of(&SandboxGround { kept: vec!["/tmp".into()], ..SandboxGround::default() });
    assert!(plan.gaps.contains(&SandboxGap::WorkInTemp) && plan.temp_at.is_none());
}

/// Landlock's children have everybody's `/tmp`: nothing is hidden by being there.
#[test]
fn what_lies_in_temp_is_covered_where_temp_is_everybodys() {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let top = dir.path().canonicalize().unwrap();
    std::fs::create_dir(top.join("home")).unwrap();
    let ground = SandboxGround {
        reserved: vec![top.join("config"), top.join("home/.cache")],
        held: vec![top.join("state")],
        kept: vec![top.join("home")],
        ..SandboxGround::default()
    };
    let plan = Plan::of(&ground, SandboxBackend::Landlock).unwrap();
    assert_eq!(plan.covers, ["config", "home/.cache", "state"].map(|name| top.join(name)));
    assert!(!plan.is_elsewhere(&top.join("other")));
    // Bubblewrap hides what is beside the home, but for what is held, which may be granted in parts.
    assert_eq!(of(&ground).covers, ["home/.cache", "state"].map(|name| top.join(name)));
}

#[test]
fn a_view_is_what_was_granted() {
    let dir = place();
    let top = dir.path().canonicalize().unwrap();
    for folder in ["work/sub", "home", "state/spool/one", "state/log"] {
        std::fs::create_dir_all(top.join(folder)).unwrap();
    }
    let ground = SandboxGround {
        reserved: vec![top.join("config")],
        held: vec![top.join("state")],
        work: Some(top.join("work")),
        kept: vec![top.join("home")],
        ..SandboxGround::default()
    };
    let plan = of(&ground);
    let cover = |name: &str| Layer::Cover(top.join(name));
    let folder = |name: &str, writable| SandboxFolder { path: top.join(name), writable };
    let show = |name: &str, writable| Layer::Show(folder(name, writable));
    let layers = |folders: &[SandboxFolder]| View::of(&plan, Some(folders)).layers;
    assert_eq!(View::of(&plan, None).layers, [cover("config"), cover("state")]);
    assert_eq!(layers(&[]), [cover("config"), cover("state"), cover("work")]);
    assert_eq!(layers(&[folder("work", true)]), [cover("config"), cover("state")]);
    let granted = [folder("work", false), folder("work/sub", true), folder("state/spool/one", false)];
    let view = View::of(&plan, Some(&granted));
    let expected =
        [cover("config"), cover("state"), show("state/spool/one", false), show("work", false), show("work/sub", true)];
    assert_eq!(view.layers, expected);
    assert!(view.hides(&top.join("state/log")) && !view.hides(&top.join("state/spool/one/x")));
    assert!(!view.pins.iter().any(|pin| pin.starts_with(top.join("state")) || pin.starts_with(top.join("work"))));
    assert!(view.pins.contains(&top));
    // A folder that contains the working folder grants it, and what is held in it stays held; one that is held may be granted itself.
    assert_eq!(layers(&[folder("", true)]), [cover("config"), cover("state")]);
    assert_eq!(layers(&[folder("work", true), folder("state", true)]), [cover("config"), show("state", true)]);
    assert_eq!(View::of(&plan, Some(&[])).start_in(&top.join("work/sub")), real_temp());
    assert_eq!(view.start_in(&top.join("work/sub")), top.join("work/sub"));
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
