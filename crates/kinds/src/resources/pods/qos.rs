//! The quality-of-service class of a pod, which follows from what its containers ask for (AP-114).

use portcullis_policy::quantity::Quantity;
use serde_json::Value;

use crate::Map;
use crate::resources::pods::amount;
use crate::resources::pods::read::Members;

/// The class that a pod has: the one in its status, else the one of its spec.
pub(super) fn class(pod: &Map) -> String {
    match pod.object("status").map(|status| status.text("qosClass")) {
        None | Some("") => pod.object("spec").map_or("BestEffort", of_spec).to_owned(),
        Some(class) => class.to_owned(),
    }
}

/// The class of a spec: `Guaranteed` when every container limits processor and memory to what it asks for, `BestEffort`
/// when nothing is asked for. Resources of the pod as a whole count in place of those of its containers.
pub(super) fn of_spec(spec: &Map) -> &'static str {
    let whole = spec.object("resources").filter(|all| {
        ["limits", "requests"].iter().any(|list| all.object(list).is_some_and(|list| !list.is_empty()))
    });
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

/// What a list has of processor and memory, if more than zero.
fn positive(holder: Option<&Map>, list: &str) -> [Option<Quantity>; 2] {
    let find = |wanted: &str| {
        let found = amount::resources(holder, list).find(|(name, _)| *name == wanted);
        found.map(|(_, quantity)| quantity).filter(|quantity| !quantity.is_zero() && !quantity.is_negative())
    };
    [find("cpu"), find("memory")]
}
