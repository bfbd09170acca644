use crate::bindings::imports::pith::plugin::messages::ToolCall;
use crate::paths::refused;
use crate::summary::{Job, Summary};
use crate::{Call, Context, Error, Execution, Exposure, Input, Origin, Output, Schema, ToolSpec, Verdict};

/// A tool that the model may call. Named in [`tools!`](crate::tools).
pub trait Tool {
    /// `[a-z0-9][a-z0-9_-]{0,63}`.
    const NAME: &'static str;
    /// For people; the name is used when absent.
    const LABEL: Option<&'static str> = None;
    /// For the model, at most 4 KiB: what it does, its limits, what it gives back.
    const DESCRIPTION: &'static str;
    /// `Sequential` for a tool that changes `state` or files.
    const EXECUTION: Execution = Execution::Parallel;
    /// Who may call it.
    const EXPOSURE: Exposure = Exposure::Direct;
    /// At most 5 of 200 bytes, for the system prompt.
    const GUIDELINES: &'static [&'static str] = &[];
    /// A JSON object: MCP's hints (`readOnlyHint` ...) and `aliases`.
    const META: Option<&'static str> = None;

    /// What the input is read into, mostly a struct that derives [`Input`](trait@Input); `Self` where it is the tool itself. The
    /// host has checked it against the schema.
    type Input: Input;

    /// The input's schema: what the type says, unless the tool says it otherwise.
    fn schema() -> Schema {
        <Self::Input as Input>::schema()
    }

    /// The schema of `structured`, where the tool gives it.
    fn output_schema() -> Option<Schema> {
        None
    }

    /// Serves one call, in an instance of its own. An error is a refusal: the model reads its message.
    fn run(input: Self::Input, context: &Context) -> Result<Output, Error>;
}

/// Judges every tool call before it runs. Named in [`export_gate!`](crate::export_gate).
pub trait Gate {
    /// What is judged is byte for byte what will run. An error denies the call.
    fn before_call(call: &Call, origin: &Origin) -> Result<Verdict, Error>;
}

/// Sees every tool result before it is recorded. Named in [`export_filter!`](crate::export_filter).
pub trait Filter {
    /// None leaves the output as it is. An error fails the call.
    fn after_call(call: &Call, origin: &Origin, output: Output) -> Result<Option<Output>, Error>;
}

/// Writes the summary that takes the place of older messages. Named in [`export_compactor!`](crate::export_compactor).
pub trait Compactor {
    /// None leaves it to the next compactor, at last to the host, which shortens without a model. An error is told to the user, and the
    /// host's own serves as well.
    fn compact(job: Job) -> Result<Option<Summary>, Error>;
}

/// Exports these types, each a [`Tool`], as the interface `tools`. Once in a crate.
#[macro_export]
macro_rules! tools {
    ($($tool:ty),+ $(,)?) => {
        const _: () = {
            struct Exported;
            impl $crate::bindings::tools::exports::pith::plugin::tools::Guest for Exported {
                fn specs() -> ::core::result::Result<::std::vec::Vec<$crate::ToolSpec>, $crate::Error> {
                    ::core::result::Result::Ok(::std::vec![$($crate::glue::spec::<$tool>()),+])
                }
                fn call(
                    call: $crate::bindings::imports::pith::plugin::messages::ToolCall,
                ) -> ::core::result::Result<$crate::Output, $crate::Error> {
                    $(if call.name == <$tool as $crate::Tool>::NAME {
                        return $crate::glue::call::<$tool>(call);
                    })+
                    ::core::result::Result::Err($crate::glue::unknown_tool(&call))
                }
            }
            // Where nothing is exported, the code still counts as used.
            #[cfg(not(target_arch = "wasm32"))]
            const _: () = {
                let _ = <Exported as $crate::bindings::tools::exports::pith::plugin::tools::Guest>::specs;
                let _ = <Exported as $crate::bindings::tools::exports::pith::plugin::tools::Guest>::call;
            };
            #[cfg(target_arch = "wasm32")]
            $crate::bindings::tools::export!(Exported with_types_in $crate::bindings::tools);
        };
    };
}

/// Exports this type, a [`Gate`], as the interface `tool-gate`. Once in a crate.
#[macro_export]
macro_rules! export_gate {
    ($gate:ty) => {
        const _: () = {
            struct Exported;
            impl $crate::bindings::tool_gate::exports::pith::plugin::tool_gate::Guest for Exported {
                fn before_call(
                    call: $crate::bindings::imports::pith::plugin::messages::ToolCall,
                    origin: $crate::Origin,
                ) -> ::core::result::Result<$crate::Verdict, $crate::Error> {
                    $crate::glue::before_call::<$gate>(call, &origin)
                }
            }
            // Where nothing is exported, the code still counts as used.
            #[cfg(not(target_arch = "wasm32"))]
            const _: () = {
                let _ = <Exported as $crate::bindings::tool_gate::exports::pith::plugin::tool_gate::Guest>::before_call;
            };
            #[cfg(target_arch = "wasm32")]
    $crate::bindings::tool_gate::export!(Exported with_types_in $crate::bindings::tool_gate);
        };
    };
}

/// Exports this type, a [`Filter`], as the interface `tool-filter`. Once in a crate.
#[macro_export]
macro_rules! export_filter {
    ($filter:ty) => {
        const _: () = {
            struct Exported;
            impl $crate::bindings::tool_filter::exports::pith::plugin::tool_filter::Guest for Exported {
                fn after_call(
                    call: $crate::bindings::imports::pith::plugin::messages::ToolCall,
                    origin: $crate::Origin,
                    output: $crate::Output,
                ) -> ::core::result::Result<::core::option::Option<$crate::Output>, $crate::Error> {
                    $crate::glue::after_call::<$filter>(call, &origin, output)
                }
            }
            // Where nothing is exported, the code still counts as used.
            #[cfg(not(target_arch = "wasm32"))]
            const _: () = {
                let _ =
                    <Exported as $crate::bindings::tool_filter::exports::pith::plugin::tool_filter::Guest>::after_call;
            };
            #[cfg(target_arch = "wasm32")]
    $crate::bindings::tool_filter::export!(Exported with_types_in $crate::bindings::tool_filter);
        };
    };
}

/// Exports this type, a [`Compactor`], as the interface `compactor`. Once in a crate.
#[macro_export]
macro_rules! export_compactor {
    ($compactor:ty) => {
        const _: () = {
            struct Exported;
            impl $crate::bindings::compactor::exports::pith::plugin::compactor::Guest for Exported {
                fn compact(
                    job: $crate::summary::Job,
                ) -> ::core::result::Result<::core::option::Option<$crate::summary::Summary>, $crate::Error> {
                    <$compactor as $crate::Compactor>::compact(job)
                }
            }
            // Where nothing is exported, the code still counts as used.
            #[cfg(not(target_arch = "wasm32"))]
            const _: () = {
                let _ = <Exported as $crate::bindings::compactor::exports::pith::plugin::compactor::Guest>::compact;
            };
            #[cfg(target_arch = "wasm32")]
    $crate::bindings::compactor::export!(Exported with_types_in $crate::bindings::compactor);
        };
    };
}

/// The tool as the contract declares it.
pub fn spec<T: Tool>() -> ToolSpec {
    ToolSpec {
        name: T::NAME.to_owned(),
        label: T::LABEL.map(str::to_owned),
        description: T::DESCRIPTION.to_owned(),
        input_schema: T::schema().to_string(),
        output_schema: T::output_schema().map(|schema| schema.to_string()),
        execution: T::EXECUTION,
        exposure: T::EXPOSURE,
        guidelines: T::GUIDELINES.iter().map(|&line| line.to_owned()).collect(),
        meta: T::META.map(str::to_owned),
    }
}

/// Reads the input and runs the tool.
pub fn call<T: Tool>(call: ToolCall) -> Result<Output, Error> {
    drop(refused());
    let input = serde_json::from_str(&call.input).map_err(|error| {
        refused().unwrap_or_else(|| Error::invalid(format!("The input of `{}` does not fit: {error}.", T::NAME)))
    })?;
    // The text may be large, and the tool has no use for it any more.
    drop(call.input);
    T::run(input, &Context::new(call.id))
}

/// The refusal of a tool that this plugin does not have.
pub fn unknown_tool(call: &ToolCall) -> Error {
    Error::not_found(format!("This plugin has no tool `{}`.", call.name))
}

/// Has the gate judge.
pub fn before_call<G: Gate>(call: ToolCall, origin: &Origin) -> Result<Verdict, Error> {
    G::before_call(&Call::from(call), origin)
}

/// Has the filter look.
pub fn after_call<F: Filter>(call: ToolCall, origin: &Origin, output: Output) -> Result<Option<Output>, Error> {
    F::after_call(&Call::from(call), origin, output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Content, ErrorKind, Property};

    struct Shout;

    #[derive(serde::Deserialize)]
    struct ShoutInput {
        text: String,
    }

    impl Input for ShoutInput {
        fn schema() -> Schema {
            Schema::object().required("text", Property::string("What to say."))
        }
    }

    impl Tool for Shout {
        const NAME: &'static str = "shout";
        const DESCRIPTION: &'static str = "Says it louder.";
        type Input = ShoutInput;
        fn run(input: ShoutInput, context: &Context) -> Result<Output, Error> {
            Ok(Output::text(input.text.to_uppercase()).details(&context.call_id()))
        }
    }

    fn tool_call(input: &str) -> ToolCall {
        ToolCall { id: "7".into(), name: "shout".into(), input: input.into() }
    }

    #[test]
    fn a_call_is_read_run_and_answered() {
        let output = call::<Shout>(tool_call(r#"{"text":"hey"}"#)).unwrap();
        assert!(matches!(&output.content[..], [Content::Text(text)] if text == "HEY"));
        assert_eq!(output.details.as_deref(), Some("\"7\""));
        assert!(!output.is_error && !output.terminate);
    }

    #[test]
    fn input_that_does_not_fit_is_refused_by_name() {
        let error = call::<Shout>(tool_call("{}")).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert_eq!(error.message, "The input of `shout` does not fit: missing field `text` at line 1 column 2.");
    }

    #[test]
    fn the_spec_is_what_the_trait_says() {
        let spec = spec::<Shout>();
        assert_eq!((spec.name.as_str(), spec.description.as_str()), ("shout", "Says it louder."));
        assert!(spec.input_schema.contains("\"additionalProperties\":false"));
        assert!(spec.label.is_none() && spec.meta.is_none() && spec.guidelines.is_empty());
    }
}
