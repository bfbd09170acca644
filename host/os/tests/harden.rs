//! The process's own hardening; alone in its file, for it cannot be undone.
#![cfg(unix)]

use pith_os::{Child, Chunk, Command, harden_process};
use rustix::process::{DumpableBehavior, Resource, dumpable_behavior, getrlimit};

#[tokio::test]
async fn no_dumps_and_children_inherit_that_and_no_descriptors() {
    let leak = rustix::io::dup(std::fs::File::open("/dev/null").unwrap()).unwrap();
    assert!(!rustix::io::fcntl_getfd(&leak).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    harden_process().unwrap();
    assert!(rustix::io::fcntl_getfd(&leak).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    assert!(matches!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable));
    let core = getrlimit(Resource::Core);
    assert_eq!((core.current, core.maximum), (Some(0), Some(0)));

    let command = Command {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), "ulimit -c; ulimit -Hc".into()],
        cwd: "/".into(),
        ..Command::default()
    };
    let mut child = Child::spawn(command).unwrap();
    let mut said = Vec::new();
    while let Chunk::Stdout(bytes) = child.next(None).await.unwrap() {
        said.extend(bytes);
    }
    assert_eq!(said, b"0\n0\n");
}
