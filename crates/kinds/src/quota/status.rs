//! The status of a quota.

use serde_json::Value;

use crate::Map;
use crate::fields::Members;
use crate::resources::quantities::quantity;

/// Whether the status of a quota has its limits, and says of each how much is used, and of nothing else. If not, what is used must be counted
/// (`Tally`) before the quota can be applied.
pub fn is_settled(quota: &Map) -> bool {
    let (hard, status) = (quota.object("spec").object("hard"), quota.object("status"));
    let is_known = |counted: &String| quantity(status.object("used"), counted).is_some();
    let used = status.object("used").len();
    status.object("hard") == hard && used == hard.len() && hard.keys().all(is_known)
}

/// The quota with its limits and with this usage in its status.
pub(super) fn with_used(quota: &Map, used: Map) -> Map {
    let mut settled = quota.clone();
    let hard = quota.object("spec").object("hard").clone();
    if let Some(status) = settled.object_or_new("status") {
        status.insert("hard".to_owned(), Value::Object(hard));
        status.insert("used".to_owned(), Value::Object(used));
    }
    settled
}
