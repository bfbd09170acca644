//! Plain WASI: always linked, over an empty context.

use crate::{
    guests::Tool,
    house::{House, said},
};
use serde_json::json;

async fn says(world: &str, imports: &str, body: &str) -> (String, House) {
    let guest = Tool { world, imports, body, constants: vec![(320, "localhost")], ..Tool::default() };
    let house = House::with(&[("mine", guest.build(), &["tools", "files=workspace:rw", "process=bash"])]);
    let host = house.load().unwrap();
    let told = said(&house.session("one").call(&host, "try", json!({})).await);
    (told, house)
}

/// `access-denied`, and for names `access-denied` or a failure of the resolver: never a socket.
#[tokio::test(flavor = "multi_thread")]
async fn sockets_always_refuse() {
    for kind in ["tcp", "udp"] {
        let world = format!("import wasi:sockets/{kind}-create-socket@0.2.6;");
        let imports = format!(
            r#"(import "wasi:sockets/{kind}-create-socket@0.2.6" "create-{kind}-socket" (func $create (param i32 i32)))"#
        );
        let body = "(call $create (i32.const 0) (i32.const 160))
            (if (i32.or (i32.eqz (i32.load8_u (i32.const 160))) (i32.ne (i32.load8_u (i32.const 164)) (i32.const 1))) (then unreachable))
            (call $say (i32.const 256) (i32.const 4))";
        assert_eq!(says(&world, &imports, body).await.0, "done", "{kind}");
    }
    let world = "import wasi:sockets/instance-network@0.2.6; import wasi:sockets/ip-name-lookup@0.2.6;";
    let imports = r#"
        (import "wasi:sockets/instance-network@0.2.6" "instance-network" (func $network (result i32)))
        (import "wasi:sockets/ip-name-lookup@0.2.6" "resolve-addresses" (func $resolve (param i32 i32 i32 i32)))"#;
    let body = "(call $resolve (call $network) (i32.const 320) (i32.const 9) (i32.const 160))
        (if (i32.eqz (i32.load8_u (i32.const 160))) (then unreachable))
        (call $say (i32.const 256) (i32.const 4))";
    assert_eq!(says(world, imports, body).await.0, "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_no_environment_and_there_are_no_arguments() {
    let world = "import wasi:cli/environment@0.2.6;";
    for function in ["get-environment", "get-arguments"] {
        let imports = format!(r#"(import "wasi:cli/environment@0.2.6" "{function}" (func $ask (param i32)))"#);
        let body = "(call $ask (i32.const 160)) (if (i32.load (i32.const 164)) (then unreachable)) (call $say (i32.const 256) (i32.const 4))";
        assert_eq!(says(world, &imports, body).await.0, "done", "{function}");
    }
}

/// 80 KiB of standard error and then a trap: the guest writes all of it, the log keeps 64 KiB, the model is told nothing of it.
#[tokio::test(flavor = "multi_thread")]
async fn standard_error_is_kept_for_faults_and_bounded() {
    let world = "import wasi:cli/stderr@0.2.6; import wasi:io/streams@0.2.6;";
    let imports = r#"
        (import "wasi:cli/stderr@0.2.6" "get-stderr" (func $stderr (result i32)))
        (import "wasi:io/streams@0.2.6" "[method]output-stream.blocking-write-and-flush" (func $write (param i32 i32 i32 i32)))"#;
    let body = "(memory.fill (i32.const 70000) (i32.const 120) (i32.const 4096))
        (loop $more
            (call $write (call $stderr) (i32.const 70000) (i32.const 4096) (i32.const 160))
            (if (i32.load8_u (i32.const 160)) (then (return (call $say (i32.const 256) (i32.const 4)))))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $more (i32.lt_u (local.get $i) (i32.const 20))))
        unreachable";
    let (told, house) = says(world, imports, body).await;
    assert_eq!(told, "fault tools.call: trapped: unreachable code, such as a panic");
    let lines = house.log.all();
    let line = &lines[0].1;
    let kept = line.split("standard error:\n").nth(1).expect("the guest's standard error");
    assert_eq!(kept, "x".repeat(64 << 10));
}
