//! What the controller does for a cluster besides answering requests: it removes the ways around attestation, publishes the
//! names of the signers, and carries out the lifetimes of bootstrap tokens. Each is off unless configured.

mod api;
mod bindings;
mod done;
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

/// Runs until the future is dropped.
pub(super) async fn keep(shared: Arc<Shared>, leadership: Option<Leadership>) {
    let mut state = tokens::Told::default();
    let mut before = None;
    let mut due = shared.clock.running();
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
            before = Some(settings);
        }
        shared.clock.sleep(TICK).await;
    }
}
