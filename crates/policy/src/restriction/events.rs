//! Events, with the gate `PortcullisNodeEventSourceRestriction`: a node may report only as itself.
//!
//! DIVERGES: Kubernetes allows a node to write any event, so a compromised node can report events in the name of every
//! other. With the gate on, an event belongs to a node if
//!
//! - its host (`source.host` in the core group, `deprecatedSource.host` in `events.k8s.io`) is the node or empty,
//! - its `reportingInstance` is the node or empty, and
//! - not both are empty.
//!
//! A kubelet sets its node's name in both fields; before 1.29 only the host. A created, updated (old and new) or
//! deleted event must belong to the node. The component and the involved object are not restricted.

use super::body::GroupKind;
use super::rejection::Rejection;
use super::request::{AdmissionRequest, Operation};
use crate::objects::events::Event;

const CORE_EVENT: GroupKind = GroupKind("", "Event");
const EVENT: GroupKind = GroupKind("events.k8s.io", "Event");

pub(super) fn admit(me: &str, request: &AdmissionRequest<'_>) -> Result<(), Rejection> {
    let is_core = request.group.is_empty();
    let kind = if is_core { CORE_EVENT } else { EVENT };
    let (submitted, stored) = match request.operation {
        Operation::Create => (true, false),
        Operation::Update => (true, true),
        Operation::Delete => (false, true),
        Operation::Connect => return Ok(()),
    };
    let submitted = submitted.then(|| request.body::<Event<'_>>(kind)).transpose()?;
    let stored = stored.then(|| request.stored::<Event<'_>>(kind)).transpose()?;
    if submitted.iter().chain(&stored).all(|event| is_own(me, is_core, event)) {
        return Ok(());
    }
    Err(request.forbidden(format_args!("the source of the event must be node {me:?}")))
}

fn is_own(me: &str, is_core: bool, event: &Event<'_>) -> bool {
    let source = if is_core { &event.source } else { &event.deprecated_source };
    let named = [&source.host, &event.reporting_instance];
    named.iter().all(|name| name.is_empty() || **name == me) && named.iter().any(|name| !name.is_empty())
}
