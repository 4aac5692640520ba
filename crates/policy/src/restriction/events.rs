//! Events, under the gate `PortcullisNodeEventSourceRestriction`: a node reports only as itself.
//!
//! DIVERGES: Kubernetes lets a node write any event, so a stolen node can put words into the mouth of every other.
//! With the gate on, an event is a node's own when
//!
//! - its host (`source.host` in the core group, `deprecatedSource.host` in `events.k8s.io`) is the node or empty,
//! - its `reportingInstance` is the node or empty, and
//! - not both are empty.
//!
//! A kubelet sets its node's name in both; one before 1.29 sets the host alone. What is created, what is submitted
//! and stored at an update, and what is deleted must be the node's own. The component, and the object that the event
//! is about, are free.

use super::body::GroupKind;
use super::{AdmissionRequest, Operation, Rejection};
use crate::objects::events::Event;

const CORE_EVENT: GroupKind = GroupKind::new("", "Event");
const EVENT: GroupKind = GroupKind::new("events.k8s.io", "Event");

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
