//! Answers that break their contract.

use crate::{Input, floods, time};
use pith_sdk::{Error, Execution, Exposure, Output, ToolSpec};

/// A document that is none, in the form that the call asks for.
fn document(input: &Input) -> String {
    match input.deed.as_str() {
        "deep" => format!("{}1{}", "[".repeat(input.n), "]".repeat(input.n)),
        "deep-objects" => format!("{}1{}", "{\"a\":".repeat(input.n), "}".repeat(input.n)),
        "open" => "[".repeat(input.n),
        "duplicate" => r#"{"a":1,"a":2}"#.to_owned(),
        "surrogate" => r#""\ud800""#.to_owned(),
        "huge-number" => "1e999".to_owned(),
        "inexact" => "9007199254740993".to_owned(),
        "long" => format!("\"{}\"", "d".repeat(input.n)),
        "many" => format!("[{}1]", "1,".repeat(input.n)),
        _ => "done".to_owned(),
    }
}

pub fn details(input: &Input) -> Result<Output, Error> {
    let mut output = Output::text("said");
    output.details = Some(document(input));
    Ok(output)
}

pub fn structured(input: &Input) -> Result<Output, Error> {
    let mut output = Output::text("said");
    output.structured = Some(document(input));
    Ok(output)
}

#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Settings {
    specs: String,
}

/// The tools, or what the settings want in their place.
pub fn specs<'n>(names: impl Iterator<Item = &'n str>) -> Result<Vec<ToolSpec>, Error> {
    let settings: Settings = pith_sdk::settings::get()?;
    let input = Input::default();
    match settings.specs.as_str() {
        "loop" => time::endless(&input).map(|_| Vec::new()),
        "sleep" => time::sleep(&input).map(|_| Vec::new()),
        "panic" => panic!("no"),
        "allocate" => floods::allocate(&input).map(|_| Vec::new()),
        "refuse" => Err(Error::internal("x".repeat(100_000))),
        "flood" => Ok(vec![ToolSpec { description: "x".repeat(20 << 20), ..spec("flood") }]),
        "many" => Ok((0..1_000).map(|n| spec(&format!("tool-{n}"))).collect()),
        "lies" => Ok(lies()),
        _ => Ok(names.map(spec).collect()),
    }
}

fn spec(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        label: None,
        description: "Misbehaves.".to_owned(),
        input_schema: r#"{"type":"object"}"#.to_owned(),
        output_schema: None,
        execution: Execution::Parallel,
        exposure: Exposure::Direct,
        guidelines: Vec::new(),
        meta: None,
    }
}

/// One honest tool, then one for every way of not being offered.
fn lies() -> Vec<ToolSpec> {
    let mut all = vec![spec("honest")];
    let mut n = 0;
    let mut add = |change: &dyn Fn(&mut ToolSpec)| {
        n += 1;
        let mut one = spec(&format!("lie-{n}"));
        change(&mut one);
        all.push(one);
    };
    let schema = |text: String| move |spec: &mut ToolSpec| spec.input_schema = text.clone();
    add(&|spec| spec.name = "Bad Name".to_owned());
    add(&|spec| spec.name = "a".repeat(65));
    add(&|spec| spec.name = "\u{1b}[2Jpwned\n".to_owned());
    add(&|spec| spec.name = String::new());
    add(&|spec| spec.name = "mcp__x__y".to_owned());
    add(&|spec| spec.name = "hon-est".replace('-', ""));
    add(&|spec| spec.description = "x".repeat((4 << 10) + 1));
    add(&|spec| spec.label = Some("x".repeat(201)));
    add(&|spec| spec.guidelines = vec!["x".to_owned(); 6]);
    add(&|spec| spec.guidelines = vec!["x".repeat(201)]);
    add(&|spec| spec.meta = Some("{".to_owned()));
    add(&|spec| spec.output_schema = Some("[".repeat(100_000)));
    add(&schema("[".repeat(30_000)));
    add(&schema("{".to_owned()));
    add(&schema("null".to_owned()));
    add(&schema(r#"{"type":"string"}"#.to_owned()));
    add(&schema(format!(r#"{{"type":"object","title":"{}"}}"#, "x".repeat(32 << 10))));
    add(&schema(r#"{"type":"object","$ref":"file:///etc/passwd"}"#.to_owned()));
    add(&schema(r#"{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1/x"}}}"#.to_owned()));
    add(&schema(format!(r#"{{"type":"object","not":{}{{}}{}}}"#, r#"{"not":"#.repeat(16), "}".repeat(16))));
    all
}
