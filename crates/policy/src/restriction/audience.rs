//! For which audiences a node gets tokens of a pod (NR-65 to NR-75): those that the pod's volumes use, and those
//! that the authorizer chain allows (NC-24).

use super::lookup::{PodFacts, TokenSource};
use super::{AdmissionRequest, NodeRestriction, Rejection};
use crate::objects::decode::Text;
use crate::request::{Attributes, ResourceRequest};
use crate::rules::aggregate;

/// The access check for an audience that the pod does not use (NR-73).
#[derive(Clone, Debug)]
pub struct AudienceQuestion<'a> {
    request: AdmissionRequest<'a>,
    audience: Text<'a>,
}

impl<'a> AudienceQuestion<'a> {
    pub(super) fn new(request: AdmissionRequest<'a>, audience: Text<'a>) -> Self {
        Self { request, audience }
    }

    /// The attributes for the authorizer chain, with the audience verbatim as the resource (NR-73, NR-74).
    pub fn attributes(&self) -> Attributes<'_> {
        Attributes {
            user: self.request.user,
            verb: "request-serviceaccounts-token-audience",
            path: "",
            resource: Some(ResourceRequest {
                namespace: self.request.namespace,
                version: "v1",
                resource: &self.audience,
                name: self.request.name,
                ..ResourceRequest::default()
            }),
        }
    }

    /// The rejection if the chain does not allow it.
    pub fn refusal(&self) -> Rejection {
        self.request.forbidden(format_args!(
            "no volume of the pod uses audience {:?}, and {} is not allowed to request tokens for it",
            &*self.audience, self.request.user.name
        ))
    }
}

impl NodeRestriction<'_> {
    /// Returns whether a known volume of a known pod uses the audience (NR-66 to NR-71). Volumes whose objects are unknown use
    /// none.
    pub fn is_audience_of(&self, namespace: &str, pod: &str, audience: &str) -> bool {
        self.lookup.pod(namespace, pod).is_some_and(|pod| {
            let mut sources = pod.token_sources.iter();
            sources.any(|source| self.source_uses_audience(namespace, source, audience) == Ok(true))
        })
    }

    /// Returns whether a volume of the pod uses the audience (NR-66 to NR-71).
    ///
    /// # Errors
    /// No known volume uses it, and an object that a volume refers to is unknown (NR-72).
    pub(super) fn pod_uses_audience(
        &self,
        request: &AdmissionRequest<'_>,
        pod: &PodFacts,
        audience: &str,
    ) -> Result<bool, Rejection> {
        let mut unknown = Vec::new();
        for source in &pod.token_sources {
            match self.source_uses_audience(request.namespace, source, audience) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(what) => unknown.push(what),
            }
        }
        match aggregate(&unknown) {
            None => Ok(false),
            Some(unknown) => {
                Err(request
                    .forbidden(format_args!("cannot tell whether the pod uses {audience:?}: {unknown}")))
            }
        }
    }

    fn source_uses_audience(
        &self,
        namespace: &str,
        source: &TokenSource,
        audience: &str,
    ) -> Result<bool, String> {
        match source {
            TokenSource::Audience(projected) => Ok(**projected == *audience),
            TokenSource::Driver(driver) => self.driver_uses_audience(driver, audience),
            TokenSource::Claim(name) => {
                let claim = self
                    .lookup
                    .claim(namespace, name)
                    .ok_or_else(|| format!("persistentvolumeclaim \"{name}\" not found"))?;
                let volume = self
                    .lookup
                    .volume(&claim)
                    .ok_or_else(|| format!("persistentvolume \"{claim}\" not found"))?;
                volume.driver.map_or(Ok(false), |driver| self.driver_uses_audience(&driver, audience))
            }
        }
    }

    /// NR-71.
    fn driver_uses_audience(&self, driver: &str, audience: &str) -> Result<bool, String> {
        let audiences = self
            .lookup
            .csi_driver(driver)
            .ok_or_else(|| format!("csidriver.storage.k8s.io \"{driver}\" not found"))?;
        Ok(audiences.iter().any(|listed| **listed == *audience))
    }
}
