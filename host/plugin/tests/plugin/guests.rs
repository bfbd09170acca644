//! Guests written as text, so that each does exactly one thing, and that without a toolchain.

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The smallest parts of WASI that the guests here use, of a version older than the host's.
const IO: &str = r#"
package wasi:io@0.2.6;
interface poll {
    resource pollable { block: func(); }
}
interface error {
    resource error;
}
interface streams {
    use error.{error};
    variant stream-error { last-operation-failed(error), closed }
    resource output-stream { blocking-write-and-flush: func(contents: list<u8>) -> result<_, stream-error>; }
}
"#;
const CLI: &str = r#"
package wasi:cli@0.2.6;
interface stderr {
    use wasi:io/streams@0.2.6.{output-stream};
    get-stderr: func() -> output-stream;
}
interface environment {
    get-environment: func() -> list<tuple<string, string>>;
    get-arguments: func() -> list<string>;
    initial-cwd: func() -> option<string>;
}
"#;
const SOCKETS: &str = r#"
package wasi:sockets@0.2.6;
interface network {
    resource network;
    enum error-code {
        unknown, access-denied, not-supported, invalid-argument, out-of-memory, timeout, concurrency-conflict, not-in-progress,
        would-block, invalid-state, new-socket-limit, address-not-bindable, address-in-use, remote-unreachable, connection-refused,
        connection-reset, connection-aborted, datagram-too-large, name-unresolvable, temporary-resolver-failure, permanent-resolver-failure,
    }
    enum ip-address-family { ipv4, ipv6 }
}
interface instance-network {
    use network.{network};
    instance-network: func() -> network;
}
interface tcp { resource tcp-socket; }
interface tcp-create-socket {
    use network.{error-code, ip-address-family};
    use tcp.{tcp-socket};
    create-tcp-socket: func(address-family: ip-address-family) -> result<tcp-socket, error-code>;
}
interface udp { resource udp-socket; }
interface udp-create-socket {
    use network.{error-code, ip-address-family};
    use udp.{udp-socket};
    create-udp-socket: func(address-family: ip-address-family) -> result<udp-socket, error-code>;
}
interface ip-name-lookup {
    use network.{network, error-code};
    resource resolve-address-stream;
    resolve-addresses: func(network: borrow<network>, name: string) -> result<resolve-address-stream, error-code>;
}
"#;
const CLOCKS: &str = r#"
package wasi:clocks@0.2.6;
interface monotonic-clock {
    use wasi:io/poll@0.2.6.{pollable};
    subscribe-duration: func(when: u64) -> pollable;
}
"#;
const RANDOM: &str = r#"
package wasi:random@0.2.6;
interface random { get-random-bytes: func(len: u64) -> list<u8>; }
"#;
const FILESYSTEM: &str = r#"
package wasi:filesystem@0.2.6;
interface types {
    flags path-flags { symlink-follow }
    flags open-flags { create, directory, exclusive, truncate }
    flags descriptor-flags { read, write, file-integrity-sync, data-integrity-sync, requested-write-sync, mutate-directory }
    enum error-code {
        access, would-block, already, bad-descriptor, busy, deadlock, quota, exist, file-too-large, illegal-byte-sequence, in-progress,
        interrupted, invalid, io, is-directory, loop, too-many-links, message-size, name-too-long, no-device, no-entry, no-lock,
        insufficient-memory, insufficient-space, not-directory, not-empty, not-recoverable, unsupported, no-tty, no-such-device, overflow,
        not-permitted, pipe, read-only, invalid-seek, text-file-busy, cross-device,
    }
    resource descriptor {
        open-at: func(path-flags: path-flags, path: string, open-flags: open-flags, %flags: descriptor-flags) -> result<descriptor, error-code>;
        symlink-at: func(old-path: string, new-path: string) -> result<_, error-code>;
    }
}
interface preopens {
    use types.{descriptor};
    get-directories: func() -> list<tuple<descriptor, string>>;
}
"#;

/// A component of a core module in text and the world that it fits.
pub fn component(world: &str, core: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let wit = concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit");
    resolve.push_dir(wit).expect("the contract");
    let wasi = [
        ("io.wit", IO),
        ("clocks.wit", CLOCKS),
        ("filesystem.wit", FILESYSTEM),
        ("random.wit", RANDOM),
        ("cli.wit", CLI),
        ("sockets.wit", SOCKETS),
    ];
    for (name, text) in wasi {
        resolve.push_str(name, text).expect(name);
    }
    let package =
        resolve.push_str("guest.wit", &format!("package test:guest; world guest {{ {world} }}")).expect("world");
    let world = resolve.select_world(&[package], Some("guest")).expect("world");
    let mut module = wat::parse_str(core).unwrap_or_else(|error| panic!("{error}\n{core}"));
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).expect("metadata");
    ComponentEncoder::default().validate(true).module(&module).expect("module").encode().expect("component")
}

/// What every guest here has: memory, an allocator that only grows, and answers in words.
///
/// Below 64 KiB lie constants: 16 the result area, 256 text, 1024 the specs. `$say` answers `tools.call` with a text, `$refuse` with an error.
fn frame(imports: &str, constants: &str, functions: &str) -> String {
    format!(
        r#"(module
            {imports}
            (memory (export "memory") 2)
            (global $heap (mut i32) (i32.const 65536))
            {constants}
            (func $realloc (export "cabi_realloc") (param $old i32) (param $old_size i32) (param $align i32) (param $size i32) (result i32)
                (local $at i32)
                (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 15)) (i32.const -16)))
                (global.set $heap (i32.add (local.get $at) (local.get $size)))
                (block $fits
                    (br_if $fits (i32.le_u (global.get $heap) (i32.mul (memory.size) (i32.const 65536))))
                    (drop (memory.grow (i32.add (i32.shr_u (local.get $size) (i32.const 16)) (i32.const 1)))))
                (local.get $at))
            ;; result<tool-output, error>, ok, one block of text
            (func $say (param $text i32) (param $length i32) (result i32)
                (memory.fill (i32.const 16) (i32.const 0) (i32.const 80))
                (i32.store (i32.const 20) (i32.const 80))
                (i32.store (i32.const 24) (i32.const 1))
                (i32.store (i32.const 84) (local.get $text))
                (i32.store (i32.const 88) (local.get $length))
                (i32.const 16))
            ;; any result<_, error> whose error starts at 4
            (func $refuse (param $kind i32) (param $text i32) (param $length i32) (result i32)
                (memory.fill (i32.const 16) (i32.const 0) (i32.const 80))
                (i32.store8 (i32.const 16) (i32.const 1))
                (i32.store8 (i32.const 20) (local.get $kind))
                (i32.store (i32.const 24) (local.get $text))
                (i32.store (i32.const 28) (local.get $length))
                (i32.const 16))
            {functions})"#
    )
}

fn data(at: usize, text: &str) -> String {
    let escaped: String = text.bytes().map(|byte| format!("\\{byte:02x}")).collect();
    format!("(data (i32.const {at}) \"{escaped}\")")
}

fn words(at: usize, words: &[usize]) -> String {
    let bytes: String =
        words.iter().flat_map(|word| (*word as u32).to_le_bytes()).map(|byte| format!("\\{byte:02x}")).collect();
    format!("(data (i32.const {at}) \"{bytes}\")")
}

/// A guest with one tool. `body` is the code of `tools.call`: its input is at `$input` for `$length` bytes, and it leaves the address of a
/// result, as `$say` and `$refuse` do. "done" lies at 256.
pub struct Tool<'t> {
    pub name: &'t str,
    pub world: &'t str,
    pub imports: &'t str,
    pub constants: Vec<(usize, &'t str)>,
    pub functions: &'t str,
    pub body: &'t str,
    /// The code of `tools.specs`, where it does more than answer.
    pub specs: &'t str,
}

impl Default for Tool<'_> {
    fn default() -> Self {
        Self {
            name: "try",
            world: "",
            imports: "",
            constants: Vec::new(),
            functions: "",
            body: "(call $say (i32.const 256) (i32.const 4))",
            specs: "",
        }
    }
}

impl Tool<'_> {
    pub fn build(&self) -> Vec<u8> {
        const DESCRIPTION: &str = "Tries it.";
        const SCHEMA: &str = r#"{"type":"object"}"#;
        let mut constants = vec![
            data(256, "done"),
            data(1024, self.name),
            data(1100, DESCRIPTION),
            data(1200, SCHEMA),
            // result<list<tool-spec>, error> and the one spec.
            words(1400, &[0, 1500, 1]),
            words(1500, &[1024, self.name.len(), 0, 0, 0, 1100, DESCRIPTION.len(), 1200, SCHEMA.len()]),
        ];
        constants.extend(self.constants.iter().map(|(at, text)| data(*at, text)));
        let functions = format!(
            r#"{functions}
            (func (export "pith:plugin/tools@0.1.0#specs") (result i32) {specs} (i32.const 1400))
            (func (export "pith:plugin/tools@0.1.0#call")
                (param $id i32) (param $id_length i32) (param $name i32) (param $name_length i32) (param $input i32) (param $length i32)
                (result i32) (local $i i32)
                {body})"#,
            functions = self.functions,
            specs = self.specs,
            body = self.body,
        );
        let world = format!("{} export pith:plugin/tools@0.1.0;", self.world);
        component(&world, &frame(self.imports, &constants.join("\n"), &functions))
    }
}

/// A guest with one tool that does what `body` says where its input is more than `{}`, and answers "done" else.
pub fn tool(body: &str) -> Vec<u8> {
    Tool { body: &when_asked(body), ..Tool::default() }.build()
}

/// Code that does something only where the input is more than `{}`.
pub fn when_asked(body: &str) -> String {
    format!(
        "(if (result i32) (i32.gt_u (local.get $length) (i32.const 2)) (then {body}) (else (call $say (i32.const 256) (i32.const 4))))"
    )
}

/// A gate. `body` leaves the address of its result: `$pass`, `$deny` (at 300, 6 bytes: "not so"), `$refuse`. The call is at `$call`: id, name
/// and input as pairs of words, so the input's length is at 20.
pub fn gate(imports: &str, world: &str, body: &str) -> Vec<u8> {
    let functions = format!(
        r#"
        (func $pass (result i32) (memory.fill (i32.const 16) (i32.const 0) (i32.const 80)) (i32.const 16))
        (func $deny (result i32)
            (drop (call $pass))
            (i32.store8 (i32.const 20) (i32.const 2))
            (i32.store (i32.const 24) (i32.const 300))
            (i32.store (i32.const 28) (i32.const 6))
            (i32.const 16))
        (func $length (param $call i32) (result i32) (i32.load offset=20 (local.get $call)))
        (func (export "pith:plugin/tool-gate@0.1.0#before-call") (param $call i32) (result i32) {body})"#
    );
    let world = format!("{world} export pith:plugin/tool-gate@0.1.0;");
    component(&world, &frame(imports, &[data(256, "done"), data(300, "not so")].join("\n"), &functions))
}

/// A filter. `body` leaves the address of its result: `$keep`, `$replace` (by the text "done"), `$refuse`.
pub fn filter(body: &str) -> Vec<u8> {
    let functions = format!(
        r#"
        (func $keep (result i32) (memory.fill (i32.const 16) (i32.const 0) (i32.const 80)) (i32.const 16))
        (func $replace (result i32)
            (drop (call $keep))
            (i32.store8 (i32.const 20) (i32.const 1))
            (i32.store (i32.const 24) (i32.const 120))
            (i32.store (i32.const 28) (i32.const 1))
            (i32.store (i32.const 124) (i32.const 256))
            (i32.store (i32.const 128) (i32.const 4))
            (i32.const 16))
        (func (export "pith:plugin/tool-filter@0.1.0#after-call") (param $all i32) (result i32) {body})"#
    );
    component("export pith:plugin/tool-filter@0.1.0;", &frame("", &data(256, "done"), &functions))
}

/// A compactor. `body` leaves the address of its result: `$none`, `$give` (a text's place and length), `$refuse`. "done" lies at 256.
pub fn compactor(world: &str, imports: &str, constants: &[(usize, &str)], body: &str) -> Vec<u8> {
    let functions = format!(
        r#"
        (func $none (result i32) (memory.fill (i32.const 16) (i32.const 0) (i32.const 80)) (i32.const 16))
        (func $give (param $text i32) (param $length i32) (result i32)
            (drop (call $none))
            (i32.store8 (i32.const 20) (i32.const 1))
            (i32.store (i32.const 24) (local.get $text))
            (i32.store (i32.const 28) (local.get $length))
            (i32.const 16))
        (func (export "pith:plugin/compactor@0.1.0#compact") (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32) (local $i i32) {body})"#
    );
    let mut lines = vec![data(256, "done")];
    lines.extend(constants.iter().map(|(at, text)| data(*at, text)));
    let world = format!("{world} export pith:plugin/compactor@0.1.0;");
    component(&world, &frame(imports, &lines.join("\n"), &functions))
}

/// What a guest needs to ask a model: `$complete`, which is given a query's parts and a place for the result.
pub const MODELS_WORLD: &str = "import pith:plugin/models@0.1.0;";
pub const MODELS_IMPORT: &str = r#"(import "pith:plugin/models@0.1.0" "complete" (func $complete (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))"#;
/// Asks in one message of the user's, of `length` bytes from `at` on ("done" lies at 256); leaves the result at 700. The message is at 560, its
/// block at 580.
pub fn ask(at: usize, length: usize) -> String {
    format!(
        "(i32.store (i32.const 580) (i32.const 0)) (i32.store (i32.const 584) (i32.const {at})) (i32.store (i32.const 588) (i32.const {length}))
         (i32.store (i32.const 560) (i32.const 0)) (i32.store (i32.const 564) (i32.const 580)) (i32.store (i32.const 568) (i32.const 1))
         (call $complete (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 560) (i32.const 1)
            (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 700))"
    )
}

/// What a guest needs to wait a long time in the host: `$wait`.
pub const WAIT_WORLD: &str = "import wasi:clocks/monotonic-clock@0.2.6; import wasi:io/poll@0.2.6;";
pub const WAIT_IMPORTS: &str = r#"
    (import "wasi:clocks/monotonic-clock@0.2.6" "subscribe-duration" (func $subscribe (param i64) (result i32)))
    (import "wasi:io/poll@0.2.6" "[method]pollable.block" (func $block (param i32)))"#;
/// An hour.
pub const WAIT: &str = "(call $block (call $subscribe (i64.const 3600000000000)))";
