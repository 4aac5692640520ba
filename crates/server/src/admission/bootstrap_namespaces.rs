//! The namespaces whose objects the server trusts to bootstrap nodes: only who may write these objects may create the
//! namespace (NB-14, NB-30).
//!
//! DIVERGES: Kubernetes has no such check. In many clusters, whoever creates a namespace becomes its administrator. Where a
//! namespace of bootstrap authorities did not exist, a tenant could create it, put its own authority into it, and
//! bootstrap nodes. Without ConfigMaps of bootstrap authorities (`--bootstrap-ca-configmap=none`) nothing is checked.

use kinds::{Map, meta};
use policy::request::ResourceRequest;
use policy::{Attributes, User};

use crate::authz::Authorization;
use crate::http::status::{Details, Status};
use crate::registry::bootstrap_authorities::Settings;
use crate::registry::target::Target;

/// Checks whether the user may create this namespace.
///
/// # Errors
/// 403 if the server trusts an object in it that the user may not write.
pub(super) async fn check(
    authorization: &Authorization,
    settings: &Settings,
    user: &User,
    target: &Target<'_>,
    new: &Map,
) -> Result<(), Status> {
    let objects = settings.config_maps.iter().map(|place| ("configmaps", place));
    let account = (!settings.config_maps.is_empty()).then_some(("serviceaccounts", &settings.account));
    for (plural, (namespace, object)) in objects.chain(account) {
        let written = ResourceRequest {
            version: "v1",
            resource: plural,
            namespace,
            name: object,
            ..ResourceRequest::default()
        };
        let attributes = Attributes { user, verb: "update", path: "", resource: Some(written) };
        if meta::may_be_named(new, namespace) && !authorization.ask(&attributes).await.is_allow() {
            let message = format!(
                "namespaces {namespace:?} is forbidden: {plural} {object:?} in it bootstraps nodes: only a user who may \
                 update it can create the namespace"
            );
            let details = Details::of(target.resource.group, target.resource.plural, namespace);
            return Err(Status::forbidden(message, details));
        }
    }
    Ok(())
}
