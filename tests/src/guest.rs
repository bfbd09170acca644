//! Components assembled from text: guests that do one thing, good or bad, on the public contract and with no toolchain between.

use crate::place::repository;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// What a tool's call, or a gate's judgement, does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// A tool gives these words; a gate passes.
    Fine(String),
    /// A tool gives its own input back; a gate passes.
    Echo,
    /// A tool gives these words and asks that the run end.
    Terminate(String),
    /// A tool refuses, kind `invalid`; a gate refuses to judge.
    Refuse(String),
    /// A gate denies.
    Deny(String),
    /// A gate denies, and its reason is the very input that it was shown.
    DenyInput,
    /// A gate asks the person, with a key under which the answer may be kept.
    Ask(String, Option<String>),
    /// A tool asks the person, and says the answer: `yes`, `no`, a choice's number from 1, the words, `none` where there is none, or the
    /// error's words.
    Asks(Question),
    /// Runs for ever.
    Loop,
    /// Asks for memory until there is none, then traps.
    Memory,
    /// Traps at once.
    Trap,
    /// Calls itself until the stack ends.
    Recurse,
    /// A gate traps on inputs of more than so many bytes, and denies all others with these words.
    TrapAbove(usize, String),
    /// Asks for table elements until there are none, then traps.
    Table,
    /// Gives words that claim to be two thousand million bytes long.
    Lie,
}

/// What a tool asks a person: a title, and what goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// With a detail.
    Confirm(String, String),
    /// With labels, nine at most.
    Choose(String, Vec<String>),
    /// For a line.
    Line(String),
    /// With the text that there is.
    Edit(String, String),
    /// With a schema.
    Form(String, String),
}

impl Question {
    /// The import's function and the core parameters it has.
    fn function(&self) -> (&'static str, usize) {
        match self {
            Self::Confirm(..) => ("confirm", 7),
            Self::Choose(..) => ("choose", 7),
            Self::Line(..) => ("ask", 8),
            Self::Edit(..) => ("edit", 5),
            Self::Form(..) => ("form", 5),
        }
    }
}

/// A component under construction.
#[derive(Clone, Debug, Default)]
pub struct Guest {
    tools: Vec<(String, Behaviour, bool)>,
    gate: Option<Behaviour>,
    filter: Option<Behaviour>,
    imports: Vec<&'static str>,
}

/// Imports that a guest can be given without using them: interface, function, core parameters.
const IMPORTS: &[(&str, &str, &str)] = &[
    ("dialog", "confirm", "i32 i32 i32 i32 i32 i32 i32"),
    ("process", "stop-detached", "i32 i32 i32"),
    ("ui", "alert", "i32 i32 i32 i32"),
    ("agent", "abort", ""),
];

/// Where the data of a guest begins; below it lies nothing.
const DATA: usize = 1024;

impl Guest {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// With a tool that takes any object.
    pub fn tool(mut self, name: &str, does: Behaviour) -> Self {
        self.tools.push((name.to_owned(), does, false));
        self
    }

    /// With a tool that wants its batch run one by one.
    pub fn sequential_tool(mut self, name: &str, does: Behaviour) -> Self {
        self.tools.push((name.to_owned(), does, true));
        self
    }

    /// With a gate.
    pub fn gate(mut self, does: Behaviour) -> Self {
        self.gate = Some(does);
        self
    }

    /// With a filter: `Fine` replaces every result by its words, `Echo` leaves it.
    pub fn filter(mut self, does: Behaviour) -> Self {
        self.filter = Some(does);
        self
    }

    /// With an import: `dialog`, `process`, `ui` or `agent`.
    pub fn import(mut self, interface: &'static str) -> Self {
        self.imports.push(interface);
        self
    }

    /// The core module alone.
    ///
    /// # Panics
    /// Where the text is wrong.
    pub fn core_module(&self) -> Vec<u8> {
        wat::parse_str(self.text()).unwrap_or_else(|error| panic!("{error}\n{}", self.text()))
    }

    /// The component.
    ///
    /// # Panics
    /// Where it does not fit the contract.
    pub fn component(&self) -> Vec<u8> {
        let mut resolve = Resolve::default();
        resolve.push_dir(repository().join("wit")).expect("the contract can be read");
        let mut world = String::from("package test:guest;\nworld guest {\n");
        let asks = self.questions().next().map(|_| "dialog").filter(|asks| !self.imports.contains(asks));
        for import in self.imports.iter().copied().chain(asks) {
            world.push_str(&format!("  import pith:plugin/{import}@0.1.0;\n"));
        }
        for (present, export) in [
            (!self.tools.is_empty(), "tools"),
            (self.gate.is_some(), "tool-gate"),
            (self.filter.is_some(), "tool-filter"),
        ] {
            if present {
                world.push_str(&format!("  export pith:plugin/{export}@0.1.0;\n"));
            }
        }
        world.push_str("}\n");
        let package = resolve.push_str("guest.wit", &world).expect("the world can be read");
        let world = resolve.select_world(&[package], Some("guest")).expect("it is there");
        let mut module = self.core_module();
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).expect("it fits");
        let mut encoder = ComponentEncoder::default().validate(true).module(&module).expect("it fits");
        encoder.encode().expect("it is a component")
    }

    /// Writes the component to a file; gives its path.
    ///
    /// # Panics
    /// Where it cannot be written.
    pub fn save(&self, file: &Path) -> PathBuf {
        std::fs::write(file, self.component()).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        file.to_path_buf()
    }

    fn questions(&self) -> impl Iterator<Item = &Question> {
        self.tools.iter().filter_map(|(_, does, _)| match does {
            Behaviour::Asks(question) => Some(question),
            _ => None,
        })
    }

    /// The module in the text format, by the canonical ABI: see `wit/` for the types whose layouts stand here.
    fn text(&self) -> String {
        let mut memory = Memory::default();
        let mut functions = String::new();
        let mut imports = String::new();
        for name in &self.imports {
            let (interface, function, params) =
                IMPORTS.iter().find(|(interface, _, _)| interface == name).expect("one of the imports that are known");
            let params = if params.is_empty() { String::new() } else { format!("(param {params})") };
            imports.push_str(&format!(
                "(import \"pith:plugin/{interface}@0.1.0\" \"{function}\" (func $import-{interface} {params}))\n"
            ));
        }
        let functions_asked: BTreeSet<_> = self.questions().map(Question::function).collect();
        for (function, params) in functions_asked {
            imports.push_str(&format!(
                "(import \"pith:plugin/dialog@0.1.0\" \"{function}\" (func $dialog-{function} (param {})))\n",
                "i32 ".repeat(params)
            ));
        }
        if !self.tools.is_empty() {
            let specs = memory.specs(&self.tools);
            functions.push_str(&format!(
                "(func (export \"pith:plugin/tools@0.1.0#specs\") (result i32) (i32.const {specs}))\n"
            ));
            let mut cases = String::new();
            for (name, does, _) in &self.tools {
                let at = memory.put(name.as_bytes());
                cases.push_str(&format!(
                    "(if (call $same (local.get $name) (local.get $name-length) (i32.const {at}) (i32.const {})) (then {}))\n",
                    name.len(),
                    memory.tool_body(does)
                ));
            }
            functions.push_str(&format!(
                "(func (export \"pith:plugin/tools@0.1.0#call\") (param $id i32) (param $id-length i32) (param $name i32) \
                 (param $name-length i32) (param $input i32) (param $input-length i32) (result i32)\n{cases} unreachable)\n"
            ));
        }
        if let Some(does) = &self.gate {
            functions.push_str(&format!(
                "(func (export \"pith:plugin/tool-gate@0.1.0#before-call\") (param $call i32) (result i32) {} unreachable)\n",
                memory.gate_body(does)
            ));
        }
        if let Some(does) = &self.filter {
            functions.push_str(&format!(
                "(func (export \"pith:plugin/tool-filter@0.1.0#after-call\") (param i32) (result i32) {} unreachable)\n",
                memory.filter_body(does)
            ));
        }
        let end = memory.end().next_multiple_of(16);
        format!(
            "(module\n{imports}(memory (export \"memory\") {pages})\n(global $free (mut i32) (i32.const {end}))\n\
             (data (i32.const {DATA}) \"{data}\")\n{FIXED}{functions})",
            pages = end / 65536 + 2,
            data = memory.escaped(),
        )
    }
}

/// What every guest has: a bump allocator, a comparison, and the bad ones' bodies.
const FIXED: &str = r#"
(func (export "cabi_realloc") (param $old i32) (param $old-size i32) (param $align i32) (param $size i32) (result i32)
  (local $at i32)
  (local.set $at (i32.and (i32.add (global.get $free) (i32.const 15)) (i32.const -16)))
  (global.set $free (i32.add (local.get $at) (local.get $size)))
  (block $room
    (loop $more
      (br_if $room (i32.le_u (global.get $free) (i32.mul (memory.size) (i32.const 65536))))
      (if (i32.eq (memory.grow (i32.const 16)) (i32.const -1)) (then unreachable))
      (br $more)))
  (memory.copy (local.get $at) (local.get $old) (local.get $old-size))
  (local.get $at))
(func $same (param $a i32) (param $a-length i32) (param $b i32) (param $b-length i32) (result i32)
  (local $i i32)
  (if (i32.ne (local.get $a-length) (local.get $b-length)) (then (return (i32.const 0))))
  (block $end
    (loop $next
      (br_if $end (i32.ge_u (local.get $i) (local.get $a-length)))
      (if (i32.ne (i32.load8_u (i32.add (local.get $a) (local.get $i))) (i32.load8_u (i32.add (local.get $b) (local.get $i))))
        (then (return (i32.const 0))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br $next)))
  (i32.const 1))
(func $loop (loop $again (br $again)))
(func $recurse (param $n i32) (result i32)
  (i32.add (call $recurse (i32.add (local.get $n) (i32.const 1))) (call $recurse (local.get $n))))
(table $elements 0 funcref)
(func $table
  (loop $again
    (if (i32.eq (table.grow $elements (ref.null func) (i32.const 1000)) (i32.const -1)) (then unreachable))
    (br $again)))
(func $memory
  (loop $again
    (if (i32.eq (memory.grow (i32.const 16)) (i32.const -1)) (then unreachable))
    (br $again)))
"#;

/// Data of a guest, from `DATA` on.
#[derive(Default)]
struct Memory(Vec<u8>);

impl Memory {
    /// Puts bytes at an address that all types are aligned at.
    fn put(&mut self, bytes: &[u8]) -> usize {
        let at = self.0.len().next_multiple_of(8);
        self.0.resize(at, 0);
        self.0.extend_from_slice(bytes);
        DATA + at
    }

    fn end(&self) -> usize {
        DATA + self.0.len()
    }

    fn escaped(&self) -> String {
        self.0.iter().map(|byte| format!("\\{byte:02x}")).collect()
    }

    /// A string: address and length.
    fn string(&mut self, text: &str) -> [u8; 8] {
        let at = self.put(text.as_bytes());
        pair(at, text.len())
    }

    /// `result<list<tool-spec>, error>`.
    fn specs(&mut self, tools: &[(String, Behaviour, bool)]) -> usize {
        let mut list = Vec::new();
        for (name, _, sequential) in tools {
            let mut spec = Layout::new(72);
            spec.put(0, &self.string(name));
            spec.put(20, &self.string("A tool of a test."));
            spec.put(28, &self.string(r#"{"type":"object"}"#));
            spec.put(48, &[u8::from(*sequential)]);
            list.extend_from_slice(&spec.0);
        }
        let at = self.put(&list);
        let mut result = Layout::new(16);
        result.put(4, &pair(at, tools.len()));
        self.put(&result.0)
    }

    /// `result<tool-output, error>` with one block of words.
    fn output(&mut self, text: [u8; 8], terminate: bool) -> usize {
        let mut block = Layout::new(28);
        block.put(4, &text);
        let at = self.put(&block.0);
        let mut result = Layout::new(44);
        result.put(4, &pair(at, 1));
        result.put(4 + 36, &[u8::from(terminate)]);
        self.put(&result.0)
    }

    /// `err({kind: invalid, message})` of any result whose payload is aligned at 4.
    fn refusal(&mut self, text: &str, size: usize) -> usize {
        let mut result = Layout::new(size);
        result.put(0, &[1]);
        result.put(8, &self.string(text));
        self.put(&result.0)
    }

    fn tool_body(&mut self, does: &Behaviour) -> String {
        let at = match does {
            Behaviour::Fine(text) => {
                let text = self.string(text);
                self.output(text, false)
            }
            Behaviour::Terminate(text) => {
                let text = self.string(text);
                self.output(text, true)
            }
            Behaviour::Refuse(text) => self.refusal(text, 44),
            Behaviour::Lie => self.output(pair(DATA, 2_000_000_000), false),
            Behaviour::Echo => {
                let at = self.output(pair(0, 0), false);
                // The block lies right before the result, which its list points to; its words' address and length are set here.
                let block = self.list_of(at);
                return format!(
                    "(i32.store (i32.const {}) (local.get $input)) (i32.store (i32.const {}) (local.get $input-length)) \
                     (return (i32.const {at}))",
                    block + 4,
                    block + 8
                );
            }
            Behaviour::Asks(question) => return self.question_body(question),
            other => return bad(other).to_owned(),
        };
        format!("(return (i32.const {at}))")
    }

    /// Calls the import, whose `result<option<_>, error>` has its cases at 0 and 4, then says what came.
    fn question_body(&mut self, question: &Question) -> String {
        let came = self.put(&[0; 20]);
        let mut text = |text: &str| format!("(i32.const {}) (i32.const {})", self.put(text.as_bytes()), text.len());
        let no_timeout = "(i32.const 0) (i32.const 0)";
        let arguments = match question {
            Question::Confirm(title, detail) => format!("{} {} {no_timeout}", text(title), text(detail)),
            Question::Line(title) => format!("{} (i32.const 0) {} {no_timeout}", text(title), text("")),
            Question::Edit(title, more) | Question::Form(title, more) => format!("{} {}", text(title), text(more)),
            Question::Choose(title, labels) => {
                let title = text(title);
                let mut list = Vec::new();
                for label in labels {
                    let mut choice = Layout::new(20);
                    choice.put(0, &self.string(label));
                    list.extend_from_slice(&choice.0);
                }
                format!("{title} (i32.const {}) (i32.const {}) {no_timeout}", self.put(&list), labels.len())
            }
        };
        let (yes, no, none, digit) = (self.put(b"yes"), self.put(b"no"), self.put(b"none"), self.put(b"0"));
        let (words, length) =
            (format!("(i32.load (i32.const {}))", came + 8), format!("(i32.load (i32.const {}))", came + 12));
        let (answer, answer_length) = match question {
            Question::Confirm(..) => {
                let is_yes = format!("(i32.load8_u (i32.const {}))", came + 5);
                let of = |yes, no| format!("(select (i32.const {yes}) (i32.const {no}) {is_yes})");
                (of(yes, no), of(3, 2))
            }
            Question::Choose(..) => (format!("(i32.const {digit})"), "(i32.const 1)".to_owned()),
            _ => (words.clone(), length.clone()),
        };
        let said = |error: &str, none: usize, answer: &str| {
            format!(
                "(if (result i32) (i32.load8_u (i32.const {came})) (then {error}) (else (if (result i32) \
                 (i32.load8_u (i32.const {})) (then {answer}) (else (i32.const {none})))))",
                came + 4
            )
        };
        let at = self.output(pair(0, 0), false);
        let block = self.list_of(at);
        format!(
            "(call $dialog-{} {arguments} (i32.const {came})) \
             (i32.store8 (i32.const {digit}) (i32.add (i32.const 49) {words})) \
             (i32.store (i32.const {}) {}) (i32.store (i32.const {}) {}) (return (i32.const {at}))",
            question.function().0,
            block + 4,
            said(&words, none, &answer),
            block + 8,
            said(&length, 4, &answer_length),
        )
    }

    /// Where the list of a `result<tool-output, error>` lies.
    fn list_of(&self, result: usize) -> usize {
        let at = result - DATA + 4;
        let bytes: [u8; 4] = self.0[at..at + 4].try_into().expect("four bytes");
        u32::from_le_bytes(bytes) as usize
    }

    /// `result<verdict, error>`: the verdict's case at 4, its payload at 8.
    fn gate_body(&mut self, does: &Behaviour) -> String {
        let at = match does {
            Behaviour::Fine(_) | Behaviour::Echo => self.put(&[0; 28]),
            Behaviour::Refuse(text) => self.refusal(text, 28),
            Behaviour::Deny(reason) => {
                let mut result = Layout::new(28);
                result.put(4, &[2]);
                result.put(8, &self.string(reason));
                self.put(&result.0)
            }
            Behaviour::DenyInput => {
                let mut result = Layout::new(28);
                result.put(4, &[2]);
                let at = self.put(&result.0);
                // The call is the first field of what the parameter points to, its input the third string of it.
                return format!(
                    "(i32.store (i32.const {}) (i32.load offset=16 (local.get $call))) \
                     (i32.store (i32.const {}) (i32.load offset=20 (local.get $call))) (return (i32.const {at}))",
                    at + 8,
                    at + 12
                );
            }
            Behaviour::Ask(question, remember) => {
                let mut result = Layout::new(28);
                result.put(4, &[1]);
                result.put(8, &self.string(question));
                if let Some(key) = remember {
                    result.put(16, &[1]);
                    result.put(20, &self.string(key));
                }
                self.put(&result.0)
            }
            Behaviour::TrapAbove(bytes, reason) => {
                let deny = self.gate_body(&Behaviour::Deny(reason.clone()));
                return format!(
                    "(if (i32.gt_u (i32.load offset=20 (local.get $call)) (i32.const {bytes})) (then unreachable)) {deny}"
                );
            }
            Behaviour::Lie => {
                let mut result = Layout::new(28);
                result.put(4, &[2]);
                result.put(8, &pair(DATA, 2_000_000_000));
                self.put(&result.0)
            }
            other => return bad(other).to_owned(),
        };
        format!("(return (i32.const {at}))")
    }
}

impl Memory {
    /// `result<option<tool-output>, error>`: the option's case at 4, its payload at 8.
    fn filter_body(&mut self, does: &Behaviour) -> String {
        let at = match does {
            Behaviour::Echo => self.put(&[0; 48]),
            Behaviour::Refuse(text) => self.refusal(text, 48),
            Behaviour::Fine(text) => {
                let mut block = Layout::new(28);
                block.put(4, &self.string(text));
                let block = self.put(&block.0);
                let mut result = Layout::new(48);
                result.put(4, &[1]);
                result.put(8, &pair(block, 1));
                self.put(&result.0)
            }
            Behaviour::Lie => {
                let mut block = Layout::new(28);
                block.put(4, &pair(DATA, 2_000_000_000));
                let block = self.put(&block.0);
                let mut result = Layout::new(48);
                result.put(4, &[1]);
                result.put(8, &pair(block, 1));
                self.put(&result.0)
            }
            other => return bad(other).to_owned(),
        };
        format!("(return (i32.const {at}))")
    }
}

fn bad(does: &Behaviour) -> &'static str {
    match does {
        Behaviour::Loop => "(call $loop)",
        Behaviour::Memory => "(call $memory)",
        Behaviour::Table => "(call $table)",
        Behaviour::Recurse => "(drop (call $recurse (i32.const 0)))",
        _ => "unreachable",
    }
}

fn pair(at: usize, length: usize) -> [u8; 8] {
    let word = |number: usize| u32::try_from(number).expect("a guest is small").to_le_bytes();
    let mut both = [0; 8];
    both[..4].copy_from_slice(&word(at));
    both[4..].copy_from_slice(&word(length));
    both
}

/// A record's bytes.
struct Layout(Vec<u8>);

impl Layout {
    fn new(size: usize) -> Self {
        Self(vec![0; size])
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_behaviour_makes_a_component() {
        let words = || "words".to_owned();
        let bad =
            [Behaviour::Table, Behaviour::Loop, Behaviour::Memory, Behaviour::Trap, Behaviour::Recurse, Behaviour::Lie];
        let good =
            [Behaviour::Fine(words()), Behaviour::Echo, Behaviour::Terminate(words()), Behaviour::Refuse(words())];
        let all: Vec<Behaviour> = good.into_iter().chain(bad).collect();
        let tools = all
            .iter()
            .enumerate()
            .fold(Guest::new(), |guest, (n, does)| guest.tool(&format!("tool-{n}"), does.clone()));
        assert!(tools.component().starts_with(b"\0asm\x0d\0\x01\0"));
        for gate in all.into_iter().chain([
            Behaviour::Deny(words()),
            Behaviour::DenyInput,
            Behaviour::Ask(words(), Some(words())),
            Behaviour::TrapAbove(10, words()),
        ]) {
            assert!(Guest::new().gate(gate.clone()).filter(gate).component().starts_with(b"\0asm\x0d\0\x01\0"));
        }
        for question in [
            Question::Confirm(words(), words()),
            Question::Choose(words(), vec![words(), words()]),
            Question::Line(words()),
            Question::Edit(words(), words()),
            Question::Form(words(), words()),
        ] {
            Guest::new().tool("x", Behaviour::Asks(question.clone())).tool("y", Behaviour::Asks(question)).component();
        }
        for (interface, _, _) in IMPORTS {
            Guest::new().tool("x", Behaviour::Echo).import(interface).component();
        }
    }
}
