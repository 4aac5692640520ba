//! The quality-of-service class of a pod, derived from its resources (AP-114).

use portcullis_apimachinery::quantity::Quantity;
use serde_json::Value;

use crate::Map;
use crate::fields::Members;
use crate::resources::pods::amount;

/// The class of a pod: that of its status, else that of its spec.
pub(super) fn class(pod: &Map) -> String {
    match pod.object("status").text("qosClass") {
        "" => of_spec(pod.object("spec")).to_owned(),
        class => class.to_owned(),
    }
}

/// Whether the containers of a pod ask for nothing.
pub(crate) fn is_best_effort(pod: &Map) -> bool {
    class(pod) == "BestEffort"
}

/// The class of a spec: `Guaranteed` if every container has CPU and memory limits equal to its requests, `BestEffort`
/// if there are no requests. Pod-level resources are used in place of those of containers.
pub(super) fn of_spec(spec: &Map) -> &'static str {
    let whole = spec
        .object_if_set("resources")
        .filter(|all| ["limits", "requests"].iter().any(|list| !all.object(list).is_empty()));
    let holders: Vec<Option<&Map>> = match whole {
        Some(whole) => vec![Some(whole)],
        None => {
            let containers = spec.list("containers").iter().chain(spec.list("initContainers"));
            containers.map(|container| container.get("resources").and_then(Value::as_object)).collect()
        }
    };
    let mut is_asked = false;
    let mut is_guaranteed = true;
    for holder in holders {
        let requests = positive(holder, "requests");
        let limits = positive(holder, "limits");
        is_asked |= requests.iter().chain(&limits).any(Option::is_some);
        is_guaranteed &= limits.iter().all(Option::is_some) && requests == limits;
    }
    match (is_asked, is_guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// The positive amounts of CPU and memory in a list.
fn positive(holder: Option<&Map>, list: &str) -> [Option<Quantity>; 2] {
    let find = |wanted: &str| {
        let found = amount::resources(holder, list).find(|(name, _)| *name == wanted);
        found.map(|(_, quantity)| quantity).filter(|quantity| !quantity.is_zero() && !quantity.is_negative())
    };
    [find("cpu"), find("memory")]
}
