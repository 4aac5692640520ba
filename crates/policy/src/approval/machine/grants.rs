//! The memory of approvals: one identity is granted to one key only (NB-94).
//!
//! The memory is rebuilt from the requests themselves, so it survives a restart. A long-running process keeps what it
//! has seen, because requests are deleted an hour after approval.

use hashbrown::HashMap;
use portcullis_apimachinery::time::Instant;

use super::intake::SignerPath;
use super::request::Request;

/// How long an approval blocks other keys (NB-94), in seconds.
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
    /// The time of the approval, else of the request; `None` if neither is known, which counts as now.
    pub at: Option<Instant>,
}

/// The approved client certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants(HashMap<String, Vec<Grant>>);

impl Grant {
    /// Returns the grant of an approved first request, whoever approved it: a person who decides between two keys has
    /// decided against the other (NB-75a). A node's own renewal is none.
    pub fn of(request: &Request) -> Option<Self> {
        let approval = request.approval()?;
        let content = request.content.as_ref().ok().filter(|_| !request.is_by_the_node())?;
        (SignerPath::of(&request.signer_name) == Some(SignerPath::Client)).then(|| Self {
            uid: request.uid.clone(),
            common_name: content.common_name.clone(),
            key_hash: content.key_hash,
            at: approval.since.or(request.created),
        })
    }
}

impl Grants {
    /// Collects the grants of these requests.
    pub fn of<'a>(requests: impl IntoIterator<Item = &'a Request>) -> Self {
        let mut grants = Self::default();
        requests.into_iter().filter_map(Grant::of).for_each(|grant| grants.remember(grant));
        grants
    }

    /// Records a grant; the latest one per request.
    pub fn remember(&mut self, grant: Grant) {
        let of_name = self.0.entry(grant.common_name.clone()).or_default();
        of_name.retain(|known| known.uid != grant.uid);
        of_name.push(grant);
    }

    /// Removes grants that no longer block other keys.
    pub fn forget_old(&mut self, now: Instant) {
        self.0.retain(|_, of_name| {
            of_name.retain(|grant| is_remembered(grant, now));
            !of_name.is_empty()
        });
    }

    /// Returns the grant that blocks this key from the identity of a machine with this creation time.
    pub(super) fn barring(
        &self,
        common_name: &str,
        key_hash: &[u8; 32],
        created: Instant,
        now: Instant,
    ) -> Option<&Grant> {
        self.counting(common_name, created, now).find(|grant| grant.key_hash != *key_hash)
    }

    /// The keys that have the identity of a machine with this creation time.
    pub(super) fn keys(
        &self,
        common_name: &str,
        created: Instant,
        now: Instant,
    ) -> impl Iterator<Item = &[u8; 32]> {
        self.counting(common_name, created, now).map(|grant| &grant.key_hash)
    }

    fn counting(&self, common_name: &str, created: Instant, now: Instant) -> impl Iterator<Item = &Grant> {
        let of_name = self.0.get(common_name).into_iter().flatten();
        of_name.filter(move |grant| grant.at.is_none_or(|at| at >= created) && is_remembered(grant, now))
    }
}

fn is_remembered(grant: &Grant, now: Instant) -> bool {
    grant.at.is_none_or(|at| now.seconds.saturating_sub(at.seconds) < MEMORY_SECONDS)
}
