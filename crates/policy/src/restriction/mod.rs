//! NodeRestriction admission: restricts writes by nodes where authorization cannot (NR-1 to NR-114).
//!
//! Requests of other users are admitted without being read. For nodes there is one file per resource; each parses only
//! the fields that its rules need. Nothing here changes or fetches an object, or remembers a request. A body that
//! cannot be parsed is refused.

use std::fmt;

use crate::decision::Authorizer;
use crate::features::{Feature, FeatureGates};
use crate::identity::NodeIdentity;
use crate::request::Attributes;

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
mod nodes;
mod pod_certificates;
mod pod_references;
mod pods;
pub mod rejection;
pub mod reply;
mod request;
pub mod review;
mod roles;
mod semantic;
mod slices;
mod tokens;

pub use audience::AudienceQuestion;
pub use cache::ObjectCache;
pub use lookup::Lookup;
pub use pod_references::{ApiReference, api_reference};
pub use rejection::Rejection;
pub use request::{AdmissionObject, AdmissionRequest, Operation};
pub use roles::RoleWrite;

/// Reads certificate requests. The caller implements it, because this crate knows no X.509.
pub trait CertificateRequests: fmt::Debug + Send + Sync {
    /// The last common name in a PEM-coded PKCS#10 request (NR-99, NR-100). The signature is not verified.
    ///
    /// # Errors
    /// The first PEM block is no `CERTIFICATE REQUEST`, or holds no PKCS#10; the text says why.
    fn common_name(&self, pem: &[u8]) -> Result<String, String>;

    /// The organizations in a PEM-coded PKCS#10 request, in order (AN-42). Admission does not ask for them; the audit does.
    ///
    /// # Errors
    /// As [`CertificateRequests::common_name`].
    fn organizations(&self, pem: &[u8]) -> Result<Vec<String>, String>;
}

/// The result of [`NodeRestriction::assess`] for a request that is not refused.
#[derive(Clone, Debug)]
pub enum Assessment<'a> {
    /// The request is admitted.
    Admitted,
    /// The request is admitted if the authorizer chain allows this (NR-73); otherwise it is refused with
    /// [`AudienceQuestion::refusal`].
    IfAuthorized(AudienceQuestion<'a>),
}

impl Assessment<'_> {
    /// Decides the request: `is_allowed` answers the question that was left open, if there is one.
    ///
    /// # Errors
    /// The question was answered with no.
    pub fn decide(self, is_allowed: impl FnOnce(&Attributes<'_>) -> bool) -> Result<(), Rejection> {
        match self {
            Self::IfAuthorized(question) if !is_allowed(&question.attributes()) => Err(question.refusal()),
            Self::Admitted | Self::IfAuthorized(_) => Ok(()),
        }
    }
}

/// The resources whose writes by nodes are checked.
#[derive(Clone, Copy)]
enum Restricted {
    CertificateRequests,
    Claims,
    CsiNodes,
    Events,
    Leases,
    Nodes,
    PodCertificates,
    Pods,
    Slices,
    Tokens,
}

impl Restricted {
    fn of(group: &str, resource: &str, gates: FeatureGates) -> Option<Self> {
        Some(match (group, resource) {
            ("", "nodes") => Self::Nodes,
            ("", "persistentvolumeclaims") => Self::Claims,
            ("", "pods") => Self::Pods,
            ("", "serviceaccounts") => Self::Tokens,
            ("certificates.k8s.io", "certificatesigningrequests") => Self::CertificateRequests,
            ("certificates.k8s.io", "podcertificaterequests") => Self::PodCertificates,
            ("coordination.k8s.io", "leases") => Self::Leases,
            ("resource.k8s.io", "resourceslices") => Self::Slices,
            ("storage.k8s.io", "csinodes") => Self::CsiNodes,
            ("" | "events.k8s.io", "events")
                if gates.is_on(Feature::PortcullisNodeEventSourceRestriction) =>
            {
                Self::Events
            }
            _ => return None,
        })
    }
}

/// Whether NodeRestriction checks requests of nodes with this verb, so that it may refuse what authorizers allow (AU-92).
pub fn may_refuse(verb: &str, group: &str, resource: &str, gates: FeatureGates) -> bool {
    matches!(verb, "create" | "update" | "patch" | "delete" | "deletecollection")
        && Restricted::of(group, resource, gates).is_some()
}

/// The NodeRestriction admission plugin.
#[derive(Clone, Copy)]
pub struct NodeRestriction<'a> {
    lookup: &'a dyn Lookup,
    gates: FeatureGates,
    certificate_requests: Option<&'a dyn CertificateRequests>,
}

impl<'a> NodeRestriction<'a> {
    /// The plugin over what is known (`lookup`). It refuses every certificate request of a node for a kubelet signer
    /// unless it is given something that reads them ([`NodeRestriction::with_certificate_requests`]).
    pub fn new(lookup: &'a dyn Lookup, gates: FeatureGates) -> Self {
        Self { lookup, gates, certificate_requests: None }
    }

    /// The same plugin, which reads certificate requests with this reader.
    #[must_use]
    pub fn with_certificate_requests(mut self, reader: &'a dyn CertificateRequests) -> Self {
        self.certificate_requests = Some(reader);
        self
    }

    /// Decides one write (NR-2 to NR-4). The authorizer is asked about audiences that no pod uses (NR-73).
    ///
    /// # Errors
    /// The node may not write this. The rejection is the complete response to the client (NR-6).
    pub fn admit(
        &self,
        request: &AdmissionRequest<'_>,
        authorizer: &dyn Authorizer,
    ) -> Result<(), Rejection> {
        self.assess(request)?.decide(|question| authorizer.authorize(question).is_allow())
    }

    /// Decides one write but for the question to the authorizer chain, for callers that have to wait for its answer.
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
        request.require(!me.is_empty(), "the user name names no node")?;
        let Some(restricted) = Restricted::of(request.group, request.resource, self.gates) else {
            return Ok(Assessment::Admitted);
        };
        match restricted {
            Restricted::CertificateRequests => self.admit_certificate_request(me, request)?,
            Restricted::Claims => claims::admit(self.gates, request)?,
            Restricted::CsiNodes => csi_nodes::admit(me, request)?,
            Restricted::Events => events::admit(me, request)?,
            Restricted::Leases => leases::admit(me, request)?,
            Restricted::Nodes => nodes::admit(me, request)?,
            Restricted::PodCertificates => self.admit_pod_certificate(me, request)?,
            Restricted::Pods => self.admit_pod(me, request)?,
            Restricted::Slices => slices::admit(me, request)?,
            Restricted::Tokens => return self.assess_token_request(me, request),
        }
        Ok(Assessment::Admitted)
    }
}
