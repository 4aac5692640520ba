//! Rights on parts of the status of resource claims (NR-110): whoever allocates and reserves needs a right of
//! its own, and a driver writes only about its own devices, on its own node unless it may on every node.
//!
//! The rights are for subresources that no request is about, `resourceclaims/binding` and `resourceclaims/driver`.

use kinds::Map;
use kinds::resources::dra::StatusChange;
use policy::features::Feature;
use policy::identity::bound_node;
use policy::request_info::RequestInfo;
use policy::{Attributes, ResourceRequest, User};
use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::names::is_dns_subdomain;

use crate::authz::{Authorization, forbidden};

/// A valid claim has at most 32 devices, so at most so many drivers have a changed device.
const MAX_DRIVERS: usize = 64;

/// Returns the parts of the status that the user changes without the right to do so.
pub(super) async fn check(
    authorization: &Authorization,
    user: &User,
    info: &RequestInfo,
    new: &Map,
    old: &Map,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !authorization.gates().is_on(Feature::DRAResourceClaimGranularStatusAuthorization) {
        return errors;
    }
    let change = StatusChange::of(new, old);
    let request = info.attributes(user);
    if change.binds {
        let of = ResourceRequest { subresource: "binding", namespace: "", name: "", ..target(&request) };
        if let Some(why) = refused(authorization, &Attributes { resource: Some(of), ..request }).await {
            let detail = format!("to allocate or to reserve needs a right to resourceclaims/binding: {why}");
            errors.push(FieldError::forbidden("status", detail));
        }
    }
    if change.drivers.len() > MAX_DRIVERS {
        errors.push(FieldError::forbidden("status.devices", "devices of too many drivers are changed"));
        return errors;
    }
    let is_own_node = change.node.is_some_and(|node| is_on(user, node));
    for driver in change.drivers {
        if let Some(why) = refused_driver(authorization, &request, driver, is_own_node).await {
            let detail = format!("to change devices needs a right to resourceclaims/driver: {why}");
            errors.push(FieldError::forbidden("status.devices", detail));
        }
    }
    errors
}

fn target<'a>(request: &Attributes<'a>) -> ResourceRequest<'a> {
    request.resource.unwrap_or_default()
}

/// Asks for the right to write about the devices of a driver: on the user's own node, then on every node.
async fn refused_driver(
    authorization: &Authorization,
    request: &Attributes<'_>,
    driver: &str,
    is_own_node: bool,
) -> Option<String> {
    let of = ResourceRequest { subresource: "driver", name: driver, ..target(request) };
    let mut first = None;
    for scope in ["associated-node", "arbitrary-node"].into_iter().skip(usize::from(!is_own_node)) {
        let verb = format!("{scope}:{}", request.verb);
        let why = refused(authorization, &Attributes { verb: &verb, resource: Some(of), ..*request }).await?;
        first.get_or_insert(why);
    }
    first
}

/// Returns why a right is missing, or none if it is there.
async fn refused(authorization: &Authorization, attributes: &Attributes<'_>) -> Option<String> {
    let outcome = authorization.ask(attributes).await;
    let why = || forbidden(attributes, &outcome.reason(attributes)).message().to_owned();
    (!outcome.is_allow()).then(why)
}

/// Returns whether the user is a service account with a token of a pod on this node.
fn is_on(user: &User, node: &str) -> bool {
    bound_node(user).is_some_and(|own| own == node && is_dns_subdomain(own))
}
