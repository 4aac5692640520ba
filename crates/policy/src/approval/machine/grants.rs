//! What was approved before: one identity goes to one key (NB-94).
//!
//! The memory is read from the requests themselves, so that it survives a restart; who runs for long keeps what it saw,
//! because requests are deleted an hour after they were approved.

use super::intake::SignerPath;
use super::request::{APPROVED_REASON, Request};
use crate::time::Instant;

/// How long an approval bars other keys (NB-94). Seconds.
const MEMORY_SECONDS: i64 = 2 * 60 * 60;

/// An approved client certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The unique id of the request.
    pub uid: String,
    /// The identity.
    pub common_name: String,
    /// The key's hash.
    pub key_hash: [u8; 32],
    /// When it was approved, or requested where that is not known; nothing when neither is, which counts as just now.
    pub at: Option<Instant>,
}

/// The approved client certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants(Vec<Grant>);

impl Grant {
    /// The approval in a request, if this approver gave it.
    pub fn of(request: &Request) -> Option<Self> {
        let approval = request.approval().filter(|approval| approval.reason == APPROVED_REASON)?;
        let content = request.content.as_ref().ok()?;
        (SignerPath::of(&request.signer_name) == Some(SignerPath::Client)).then(|| Self {
            uid: request.uid.clone(),
            common_name: content.common_name.clone(),
            key_hash: content.key_hash,
            at: approval.since.or(request.created),
        })
    }
}

impl Grants {
    /// The approvals in these requests.
    pub fn of<'a>(requests: impl IntoIterator<Item = &'a Request>) -> Self {
        let mut grants = Self::default();
        requests.into_iter().filter_map(Grant::of).for_each(|grant| grants.remember(grant));
        grants
    }

    /// Keeps an approval; of one request the latest.
    pub fn remember(&mut self, grant: Grant) {
        self.0.retain(|known| known.uid != grant.uid);
        self.0.push(grant);
    }

    /// Forgets what bars nobody any more.
    pub fn forget_old(&mut self, now: Instant) {
        self.0.retain(|grant| is_remembered(grant, now));
    }

    /// The approval that bars this key from the identity of a machine that was created then.
    pub(super) fn barring(
        &self,
        common_name: &str,
        key_hash: &[u8; 32],
        created: Instant,
        now: Instant,
    ) -> Option<&Grant> {
        self.0.iter().find(|grant| {
            grant.common_name == common_name
                && grant.key_hash != *key_hash
                && grant.at.is_none_or(|at| at >= created)
                && is_remembered(grant, now)
        })
    }
}

fn is_remembered(grant: &Grant, now: Instant) -> bool {
    grant.at.is_none_or(|at| now.seconds.saturating_sub(at.seconds) < MEMORY_SECONDS)
}
