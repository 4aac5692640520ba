//! NodeRestriction admission: bounds what a node writes, where authorization cannot see it (NR-1 to NR-114).
//!
//! Who is no node passes at once and unread. For nodes there is one file per resource; each parses only the fields
//! that its rules read. Nothing here changes an object, fetches one, or remembers a request. A body that cannot be
//! read is refused.

use crate::decision::Authorizer;
use crate::features::{Feature, FeatureGates};
use crate::identity::NodeIdentity;
use crate::request::User;

mod audience;
mod body;
pub mod cache;
mod certificate_requests;
mod claims;
mod csi_nodes;
mod events;
pub mod labels;
mod leases;
pub mod lookup;
pub mod mirror;
mod nodes;
mod pod_certificates;
mod pod_references;
mod pods;
pub mod rejection;
pub mod review;
mod semantic;
mod slices;
mod tokens;

pub use audience::AudienceQuestion;
pub use cache::ObjectCache;
pub use lookup::Lookup;
pub use pod_references::{ApiReference, api_reference};
pub use rejection::Rejection;

/// What a request wants to do to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// Make it.
    Create,
    /// Change it: PUT, PATCH, and apply to what exists.
    Update,
    /// Remove it; also each object of a collection that is removed.
    Delete,
    /// Open a connection to it: exec, attach, port-forward, proxy.
    Connect,
}

/// A write as admission sees it (NR-4, NR-7, NR-10). Absent parts are empty strings.
///
/// Object texts are JSON with `apiVersion` and `kind`; without them the object is of no type and refused (NR-113).
#[derive(Clone, Copy, Debug)]
pub struct AdmissionRequest<'a> {
    /// What is wanted.
    pub operation: Operation,
    /// The API group of the resource; empty for the core group.
    pub group: &'a str,
    /// The resource, plural.
    pub resource: &'a str,
    /// The subresource.
    pub subresource: &'a str,
    /// The namespace.
    pub namespace: &'a str,
    /// The name as the endpoint determined it; never taken from the body here (NR-10).
    pub name: &'a str,
    /// Who asks.
    pub user: &'a User,
    /// The object as submitted.
    pub object: Option<&'a str>,
    /// The object as stored: of an update or a delete.
    pub old_object: Option<&'a str>,
}

/// Reads the last common name out of a PEM-coded PKCS#10 request (NR-99, NR-100). Fails, saying why, when the first
/// PEM block is no `CERTIFICATE REQUEST` or holds no PKCS#10. Passed in, because this crate knows no X.509.
pub type CommonNameReader = fn(&[u8]) -> Result<String, String>;

/// What [`NodeRestriction::assess`] finds in a request that it does not refuse.
#[derive(Clone, Debug)]
pub enum Assessment<'a> {
    /// The request passes.
    Admitted,
    /// The request passes if the authorizer chain allows this (NR-73); otherwise it is refused by
    /// [`AudienceQuestion::refusal`].
    IfAuthorized(AudienceQuestion<'a>),
}

/// The NodeRestriction admission plugin.
#[derive(Clone, Copy)]
pub struct NodeRestriction<'a> {
    lookup: &'a dyn Lookup,
    authorizer: &'a dyn Authorizer,
    gates: FeatureGates,
    read_common_name: CommonNameReader,
}

impl<'a> NodeRestriction<'a> {
    /// The plugin over what is known (`lookup`), asking `authorizer` for audiences that no pod uses (NR-73).
    pub fn new(
        lookup: &'a dyn Lookup,
        authorizer: &'a dyn Authorizer,
        gates: FeatureGates,
        read_common_name: CommonNameReader,
    ) -> Self {
        Self { lookup, authorizer, gates, read_common_name }
    }

    /// Decides one write (NR-2 to NR-4).
    ///
    /// # Errors
    /// The node may not write this; the rejection is the whole answer to the client (NR-6).
    pub fn admit(&self, request: &AdmissionRequest<'_>) -> Result<(), Rejection> {
        match self.assess(request)? {
            Assessment::Admitted => Ok(()),
            Assessment::IfAuthorized(question) => {
                if self.authorizer.authorize(&question.attributes()).is_allow() {
                    return Ok(());
                }
                Err(question.refusal())
            }
        }
    }

    /// Decides one write but for the question to the authorizer, for callers whose authorizers have to be awaited.
    ///
    /// # Errors
    /// As [`NodeRestriction::admit`].
    pub fn assess<'r>(&self, request: &AdmissionRequest<'r>) -> Result<Assessment<'r>, Rejection> {
        let Some(node) = NodeIdentity::of(request.user) else {
            return Ok(Assessment::Admitted);
        };
        if request.operation == Operation::Connect {
            return Ok(Assessment::Admitted);
        }
        let me = node.name();
        if me.is_empty() {
            return Err(request.forbidden("the user name names no node"));
        }
        match (request.group, request.resource) {
            ("", "nodes") => nodes::admit(me, request)?,
            ("", "persistentvolumeclaims") => claims::admit(self.gates, request)?,
            ("", "pods") => self.admit_pod(me, request)?,
            ("", "serviceaccounts") => return self.assess_token_request(me, request),
            ("certificates.k8s.io", "certificatesigningrequests") => {
                self.admit_certificate_request(me, request)?;
            }
            ("certificates.k8s.io", "podcertificaterequests") => self.admit_pod_certificate(me, request)?,
            ("coordination.k8s.io", "leases") => leases::admit(me, request)?,
            ("resource.k8s.io", "resourceslices") => slices::admit(me, request)?,
            ("storage.k8s.io", "csinodes") => csi_nodes::admit(me, request)?,
            ("" | "events.k8s.io", "events")
                if self.gates.is_on(Feature::PortcullisNodeEventSourceRestriction) =>
            {
                events::admit(me, request)?;
            }
            _ => {}
        }
        Ok(Assessment::Admitted)
    }
}
