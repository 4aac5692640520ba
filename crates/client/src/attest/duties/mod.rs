//! What the controller does for a cluster besides answering requests: it removes the ways around attestation, publishes the
//! names of the signers, and carries out the lifetimes of bootstrap tokens. Each is off unless configured.

mod api;
mod bindings;
mod done;
mod records;
mod signers;
mod tokens;

use std::sync::Arc;
use std::time::Duration;

use self::done::Done;
use super::shared::Shared;
use crate::lease::Leadership;

/// How often everything is checked again: other programs may undo what was done (AT-132).
const INTERVAL: Duration = Duration::from_secs(60);
/// How often it is looked whether the settings changed, or what was missing is there.
const TICK: Duration = Duration::from_secs(2);
/// How often all records are read for the metrics.
const MEASURED: Duration = Duration::from_secs(5 * 60);

/// Runs until the future is dropped.
pub(super) async fn keep(shared: Arc<Shared>, leadership: Option<Leadership>) {
    let mut state = tokens::Told::default();
    let mut before = None;
    let mut due = shared.clock.running();
    let mut measured = due;
    loop {
        let settings = shared.settings.load_full();
        let is_new = before.as_ref().is_none_or(|before| !Arc::ptr_eq(before, &settings));
        let is_leader = leadership.as_ref().is_none_or(Leadership::holds);
        if is_leader && (is_new || shared.clock.running() >= due) {
            let results = [
                ("automatic approval", bindings::keep(&shared, &settings, is_new).await),
                ("signers", signers::keep(&shared, &settings, is_new).await),
                ("bootstrap tokens", tokens::keep(&shared, &settings, &mut state).await),
            ];
            let mut wait = INTERVAL;
            for (duty, result) in results {
                match result {
                    Ok(Done::Yes) => {}
                    Ok(Done::NotYet) => wait = TICK,
                    Err(why) => tracing::warn!(duty, why, "will retry"),
                }
            }
            due = shared.clock.running().saturating_add(wait);
            if shared.clock.running() >= measured {
                measured = shared.clock.running().saturating_add(MEASURED);
                if let Err(why) = records::measure(&shared, &settings).await {
                    tracing::warn!(why, "cannot read the identity records for the metrics; will retry");
                }
            }
            before = Some(settings);
        }
        shared.clock.sleep(TICK).await;
    }
}
