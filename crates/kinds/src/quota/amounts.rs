//! Amounts of what quotas count.

use std::collections::BTreeMap;

use portcullis_apimachinery::quantity::Quantity;

/// Amounts by the name of what is counted, such as `pods`, `requests.cpu` or `count/deployments.apps`.
pub type Usage = BTreeMap<String, Quantity>;

/// Adds an amount to what is used already.
pub(super) fn add(usage: &mut Usage, counted: String, amount: &Quantity) {
    let used = usage.entry(counted).or_default();
    *used = used.plus(amount);
}
