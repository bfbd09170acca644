//! Which files a conversation read and modified. The host knows no tool by name, so a tool takes part by what its plugin says of it: its input
//! has a required string `path`, and a call of it that did not fail read that file where the spec's `meta` says `readOnlyHint`, and
//! modified it where it does not. (A folder to look in is an optional `path`: of `ls` and `grep`.)

use crate::ports::OfferedTool;
use pith_protocol::{Message, ToolSpec};
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

/// The most paths that are carried from summary to summary, of each kind.
pub const TOUCHED_FILES: usize = 1_000;
/// The longest path that is carried, in bytes.
pub const TOUCHED_PATH_BYTES: usize = 1_024;

/// Files read and modified, each by the path that was named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Touched {
    read: BTreeSet<String>,
    modified: BTreeSet<String>,
}

impl Touched {
    /// Adds those of an earlier summary's `details`; what is no list of paths there is left.
    pub fn carry(&mut self, details: &Value) {
        let paths = |name: &str| {
            let list = details.get(name).and_then(Value::as_array);
            list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned)
        };
        paths("readFiles").for_each(|path| add(&mut self.read, &path));
        paths("modifiedFiles").for_each(|path| add(&mut self.modified, &path));
    }

    /// Adds those of the calls that stand in these messages with a result that is no error.
    pub fn look(&mut self, messages: &[Arc<Message>], offered: &[Arc<OfferedTool>]) {
        let tools: HashMap<&str, bool> =
            offered.iter().filter_map(|tool| Some((tool.spec.name.as_str(), modifies(&tool.spec)?))).collect();
        for (at, message) in messages.iter().enumerate() {
            let Message::Assistant(reply) = message.as_ref() else { continue };
            // Results stand right behind their reply; ids may come again with every reply.
            let failed: HashSet<&str> = messages[at + 1..]
                .iter()
                .map_while(|message| match message.as_ref() {
                    Message::ToolResult(result) => Some(result),
                    _ => None,
                })
                .filter(|result| result.is_error)
                .map(|result| result.tool_call_id.as_str())
                .collect();
            for call in reply.tool_calls().filter(|call| !failed.contains(call.id.as_str())) {
                let path = call.arguments.get("path").and_then(Value::as_str);
                if let (Some(path), Some(modifies)) = (path, tools.get(call.name.as_str())) {
                    add(if *modifies { &mut self.modified } else { &mut self.read }, path);
                }
            }
        }
    }

    /// Read and not modified; modified. Sorted.
    pub fn lists(&self) -> (Vec<String>, Vec<String>) {
        (self.read.difference(&self.modified).cloned().collect(), self.modified.iter().cloned().collect())
    }

    /// The `details` of a summary: a plugin's own, and the two lists under pi's names, which carry them on.
    pub fn details(&self, own: Option<Value>) -> Value {
        let (read, modified) = self.lists();
        let mut details = match own {
            Some(Value::Object(own)) => own,
            Some(Value::Null) | None => Map::new(),
            Some(other) => Map::from_iter([("plugin".to_owned(), other)]),
        };
        details.insert("readFiles".to_owned(), json!(read));
        details.insert("modifiedFiles".to_owned(), json!(modified));
        Value::Object(details)
    }
}

fn add(paths: &mut BTreeSet<String>, path: &str) {
    let path = path.trim_start_matches("./");
    if !path.is_empty() && path.len() <= TOUCHED_PATH_BYTES && paths.len() < TOUCHED_FILES {
        paths.insert(path.to_owned());
    }
}

/// Whether a call of the tool modifies the file that its `path` names, or reads it; none where it names none.
fn modifies(spec: &ToolSpec) -> Option<bool> {
    let required = spec.input_schema.get("required")?.as_array()?;
    let is_string = spec.input_schema.pointer("/properties/path/type").and_then(Value::as_str) == Some("string");
    let says = |hint: &str| spec.meta.as_ref().and_then(|meta| meta.get(hint)).and_then(Value::as_bool);
    (is_string && required.iter().any(|name| name == "path")).then(|| says("readOnlyHint") != Some(true))
}
