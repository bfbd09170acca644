//! `tool-gate`: judges every call before it runs. Fails closed.

use crate::{
    call::{Called, Caller, Ended, Work},
    convert,
    limits::GUARD_DEADLINE,
    plugin::Plugin,
};
use pith_bindings::{
    imports::pith::plugin::types::Error, tool_gate::exports::pith::plugin::tool_gate::Verdict as WitVerdict,
};
use pith_core::{CallScope, CanonicalCall, Judgement, Stop, Verdict};
use pith_law::Export;
use pith_protocol::{CallOrigin, GuestError, GuestErrorKind};
use std::sync::Arc;

const BEFORE_CALL: Called = Called { export: Export::ToolGate, name: "tool-gate.before-call" };

/// One gate's judgement.
pub(crate) async fn judge(
    caller: &Caller,
    plugin: &Arc<Plugin>,
    call: &CanonicalCall,
    origin: &CallOrigin,
    scope: CallScope,
) -> Judgement {
    let (call, origin) = (convert::tool_call(call), convert::call_origin(origin));
    let bytes = convert::call_bytes(&call);
    let work: Work<Result<WitVerdict, Error>> = Arc::new(move |linked, store| {
        let (call, origin) = (call.clone(), origin.clone());
        Box::pin(async move {
            let pre = linked.gate.as_ref().ok_or_else(|| wasmtime::format_err!("no export tool-gate"))?;
            let gate = pre.instantiate_async(&mut *store).await?;
            gate.pith_plugin_tool_gate().call_before_call(store, &call, &origin).await
        })
    });
    let accept = |gave: Result<WitVerdict, Error>| match gave {
        Ok(WitVerdict::Pass) => Ok(Verdict::Pass),
        Ok(WitVerdict::Ask(question)) => Ok(Verdict::Ask { text: question.text, remember: question.remember }),
        Ok(WitVerdict::Deny(reason)) => Ok(Verdict::Deny(reason)),
        Err(error) => Err(Ended::Refused(convert::guest_error(error))),
    };
    let judged = caller.call(plugin, BEFORE_CALL, GUARD_DEADLINE, scope, bytes, work, accept).await;
    Judgement { plugin: plugin.facts.name.clone(), digest: plugin.facts.digest.clone(), verdict: judged.map_err(stop) }
}

/// A guard without a verdict stops what it guards, whatever the reason.
pub(crate) fn stop(ended: Ended) -> Stop {
    match ended {
        Ended::Refused(refusal) => Stop::Refused(refusal),
        Ended::Fault(fault) => Stop::Fault(fault),
        Ended::Aborted => {
            Stop::Refused(GuestError { kind: GuestErrorKind::Cancelled, message: "the run was aborted".to_owned() })
        }
    }
}
