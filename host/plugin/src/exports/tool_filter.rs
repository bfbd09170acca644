//! `tool-filter`: sees every result, and may replace it. Fails closed.

use crate::{
    call::{Called, Caller, Ended, Work, broken},
    convert,
    exports::tool_gate::stop,
    limits::GUARD_DEADLINE,
    plugin::Plugin,
};
use pith_bindings::imports::pith::plugin::{tool_types, types::Error};
use pith_core::{CallScope, CanonicalCall, Stop};
use pith_law::Export;
use pith_protocol::{CallOrigin, ToolOutput};
use std::sync::Arc;

const AFTER_CALL: Called = Called { export: Export::ToolFilter, name: "tool-filter.after-call" };

/// What one filter makes of a result.
pub(crate) async fn filter(
    caller: &Caller,
    plugin: &Arc<Plugin>,
    call: &CanonicalCall,
    origin: &CallOrigin,
    output: ToolOutput,
    scope: CallScope,
) -> Result<ToolOutput, Stop> {
    // Shared with the call, not copied for it: a result may be large.
    let (call, origin, shown) =
        (convert::tool_call(call), convert::call_origin(origin), Arc::new(convert::shown_output(&output)));
    let bytes = convert::call_bytes(&call).saturating_add(convert::output_bytes(&shown));
    let work: Work<Result<Option<tool_types::ToolOutput>, Error>> = Arc::new(move |linked, store| {
        let (call, origin, shown) = (call.clone(), origin.clone(), shown.clone());
        Box::pin(async move {
            let pre = linked.filter.as_ref().ok_or_else(|| wasmtime::format_err!("no export tool-filter"))?;
            let filter = pre.instantiate_async(&mut *store).await?;
            filter.pith_plugin_tool_filter().call_after_call(store, &call, &origin, &shown).await
        })
    });
    let accept = |gave: Result<Option<tool_types::ToolOutput>, Error>| match gave {
        Ok(None) => Ok(None),
        Ok(Some(replaced)) => {
            plugin.facts.usage.of(AFTER_CALL.name).gave(convert::output_bytes(&replaced));
            convert::tool_output(replaced, &output.content)
                .map(Some)
                .map_err(|error| broken(plugin, AFTER_CALL, &error))
        }
        Err(error) => Err(Ended::Refused(convert::guest_error(error))),
    };
    let filtered = caller.call(plugin, AFTER_CALL, GUARD_DEADLINE, scope, bytes, work, accept).await;
    Ok(filtered.map_err(stop)?.unwrap_or(output))
}
