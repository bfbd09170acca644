//! `tools`: offers tools to the model.

use crate::{
    call::{Called, Caller, Ended, Work, broken, store},
    cause::cause,
    convert,
    instance::Instance,
    limits::SPECS_DEADLINE,
    plugin::Plugin,
    usage::End,
};
use pith_bindings::{
    imports::pith::plugin::{tool_types, types::Error},
    messages::ToolCall,
};
use pith_core::{CallScope, CanonicalCall};
use pith_law::Export;
use pith_protocol::ToolOutput;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

pub(crate) const CALL: Called = Called { export: Export::Tools, name: "tools.call" };
const SPECS: &str = "tools.specs";

/// Runs one call of a tool.
pub(crate) async fn call(
    caller: &Caller,
    plugin: &Arc<Plugin>,
    call: &CanonicalCall,
    scope: CallScope,
) -> Result<ToolOutput, Ended> {
    let call: ToolCall = convert::tool_call(call);
    let bytes = convert::call_bytes(&call);
    let work: Work<Result<tool_types::ToolOutput, Error>> = Arc::new(move |linked, store| {
        let call = call.clone();
        Box::pin(async move {
            let pre = linked.tools.as_ref().ok_or_else(|| wasmtime::format_err!("no export tools"))?;
            pre.instantiate_async(&mut *store).await?.pith_plugin_tools().call_call(store, &call).await
        })
    });
    let limit: Duration = plugin.facts.limits.tool_deadline;
    let accept = |gave: Result<tool_types::ToolOutput, Error>| match gave {
        Ok(output) => convert::tool_output(counted(plugin, output), &[]).map_err(|error| broken(plugin, CALL, &error)),
        Err(error) => Err(Ended::Refused(convert::guest_error(error))),
    };
    caller.call(plugin, CALL, limit, scope, bytes, work, accept).await
}

fn counted(plugin: &Plugin, output: tool_types::ToolOutput) -> tool_types::ToolOutput {
    plugin.facts.usage.of(CALL.name).gave(convert::output_bytes(&output));
    output
}

/// What the plugin says of its tools, or why it says nothing. At load, outside any session and any async runtime.
pub(crate) fn specs(caller: &Caller, plugin: &Plugin) -> Result<Vec<tool_types::ToolSpec>, String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(|error| error.to_string())?;
    let deadline = Instant::now() + SPECS_DEADLINE;
    // At load no other instance is alive, but other loads' ones: past the pool, on demand.
    let linked = &plugin.code.first;
    let mut store = store(linked, Instance::pure(plugin.facts.clone(), SPECS, deadline));
    let _ticking = caller.engines.run();
    let counters = plugin.facts.usage.of(SPECS);
    let begun = counters.begin(0);
    let asked = runtime.block_on(async {
        let ask = async {
            let pre = linked.tools.as_ref().ok_or_else(|| wasmtime::format_err!("no export tools"))?;
            pre.instantiate_async(&mut store).await?.pith_plugin_tools().call_specs(&mut store).await
        };
        tokio::time::timeout_at(deadline.into(), counters.timed(Box::pin(ask))).await
    });
    begun.end(match &asked {
        Ok(Ok(Ok(_))) => End::Gave,
        Ok(Ok(Err(_))) => End::Refused,
        _ => End::Fault,
    });
    match asked {
        Ok(Ok(Ok(specs))) => Ok(specs),
        Ok(Ok(Err(error))) => Err(format!("tools.specs refused: {}", error.message)),
        Ok(Err(error)) => Err(format!("tools.specs {}", cause(&error, store.data().quota.refused()))),
        Err(_) => Err(format!("tools.specs {}", crate::cause::deadline_cause(SPECS_DEADLINE))),
    }
}
