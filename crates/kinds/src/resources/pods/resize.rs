//! Whether a node can hold a pod that is resized.

use portcullis_apimachinery::quote::quoted;

use super::amount::{Totals, quantity};
use crate::Map;
use crate::fields::Members;

/// The label with the operating system of a node.
const OS_LABEL: &str = "kubernetes.io/os";

/// The node that must be asked about a resize; none if the pod has no node yet, or if nothing was resized.
pub fn resized_on<'p>(pod: &'p Map, old: &Map) -> Option<&'p str> {
    let generation = |pod: &Map| pod.metadata().number("generation");
    let node = pod.object("spec").text("nodeName");
    (!node.is_empty() && generation(pod) != generation(old)).then_some(node)
}

/// Why a pod cannot have the resources that it asks for now; `name` is that of its node, and `node` nothing if there is no
/// such node. The words are those of PodResizeValidator.
pub fn resize_refusal(pod: &Map, name: &str, node: Option<&Map>) -> Option<String> {
    let name = quoted(name);
    let Some(node) = node else { return Some(format!("node {name} not found")) };
    let allocatable = node.object("status").object("allocatable");
    let totals = Totals::of_containers(pod.object("spec"), "requests");
    // In thousandths for the processor, and in bytes for memory.
    let too_large: Vec<String> = [("cpu", -3), ("memory", 0)]
        .into_iter()
        .filter_map(|(resource, unit)| {
            let requested = requested(pod.object("spec"), &totals, resource, unit);
            let allocatable = quantity(allocatable.get(resource)).scaled(unit);
            (requested > allocatable)
                .then(|| format!("{resource}, requested: {requested}, allocatable: {allocatable}"))
        })
        .collect();
    if !too_large.is_empty() {
        let what = too_large.join("; ");
        return Some(format!("Node didn't have enough allocatable resources: {what}"));
    }
    let system = node.metadata().object("labels").text(OS_LABEL);
    (system != "linux")
        .then(|| format!("pod resize is only supported on linux nodes, node {name} is {}", quoted(system)))
}

/// What a pod asks for: for the whole pod if it says so, else for its containers; and its overhead.
fn requested(spec: &Map, totals: &Totals, resource: &str, unit: i64) -> i64 {
    let of_pod = spec.object("resources").object("requests").get(resource).map(|value| quantity(Some(value)));
    let of_containers = || totals.iter().find(|(name, _)| *name == resource).map(|(_, total)| total);
    let asked = of_pod.or_else(of_containers).map_or(0, |amount| amount.scaled(unit));
    asked.saturating_add(quantity(spec.object("overhead").get(resource)).scaled(unit))
}
