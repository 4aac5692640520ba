//! Requests: methods, targets and selectors, to the API server and to kubelets.

use portcullis_apimachinery::selector::{
    FieldRequirement, LabelRequirement, parse_field_selector, parse_label_selector,
};
use portcullis_apimachinery::target::Target;
use portcullis_policy::features::FeatureGates;
use portcullis_policy::kubelet_api::{KubeletRequest, Route, Router, Settings, forwardable};
use portcullis_policy::request_info::RequestInfo;
use portcullis_policy::{Attributes, User};

pub(super) const TARGET: &[&str] = &[
    "/api/v1",
    "/apis/apps/v1",
    "/namespaces/a",
    "/watch",
    "/proxy",
    "/pods",
    "/nodes/n/proxy/",
    "//",
    "/../",
    "%2F",
    "%00",
    "%",
    "%C3%A9",
    "?",
    "#",
    "&",
    ";",
    "=",
    "+",
    "fieldSelector=metadata.name%3Da",
    "labelSelector=a",
    "watch=true",
    "limit=1",
    "timeoutSeconds=x",
    "https://host",
    "GET ",
    "DELETE ",
    "OPTIONS ",
    "*",
];

pub(super) const SELECTOR: &[&str] = &[
    "=",
    "==",
    "!=",
    "!",
    ",",
    "\\",
    "\\,",
    "\\=",
    "(",
    ")",
    " in ",
    " notin ",
    "in",
    "notin",
    "<",
    ">",
    "metadata.name=",
    "spec.nodeName=",
    "a/b",
    "\t",
    "\u{a0}",
    "-",
    "é",
];

/// Splits an input at the first space into the method and the target.
fn method_and_target(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = input.iter().position(|byte| *byte == b' ')?;
    let (method, rest) = input.split_at_checked(space)?;
    Some((method, rest.strip_prefix(b" ")?))
}

pub(super) fn request_info(input: &[u8]) -> bool {
    let Some((method, target)) = method_and_target(input) else { return false };
    let (Ok(method), Ok(target)) = (std::str::from_utf8(method), std::str::from_utf8(target)) else {
        return false;
    };
    let wire = RequestInfo::parse(method, target);
    let reference = RequestInfo::parse_reference(method, target);
    // AC-49: the two forms differ only in targets that begin like a host, and in fragments.
    if target.starts_with('/') && !target.starts_with("//") && !target.contains('#') {
        assert_eq!(form(&wire), form(&reference), "a plain path is the same in both forms");
    }
    reference.iter().for_each(check_info);
    let Ok(info) = wire else { return reference.is_ok() };
    check_info(&info);
    if target.starts_with('/') {
        let encoded: String = info.path().bytes().skip(1).map(|byte| format!("%{byte:02X}")).collect();
        let query = target.split_once('?').map_or(String::new(), |(_, query)| format!("?{query}"));
        let again =
            RequestInfo::parse(method, &format!("/{encoded}{query}")).expect("the same path, encoded");
        assert_eq!(serialized(&again), serialized(&info), "AC-10: how a path is encoded changes nothing");
    }
    true
}

fn serialized(info: &RequestInfo) -> String {
    serde_json::to_string(info).expect("can be written")
}

fn form<E: ToString>(info: &Result<RequestInfo, E>) -> Result<String, String> {
    info.as_ref().map(serialized).map_err(ToString::to_string)
}

fn check_info(info: &RequestInfo) {
    let user = User::default();
    let Attributes { verb, path, resource, .. } = info.attributes(&user);
    assert_eq!((verb, path), (info.verb(), info.path()));
    assert_eq!(resource.is_some(), info.is_resource_request());
    let Some(resource) = resource else { return };
    assert!(path.contains(resource.resource) && path.contains(resource.namespace), "AC-25: as in the path");
    // AC-46: an invalid selector is not a requirement.
    assert!(parse_field_selector(info.raw_field_selector()).is_ok() || resource.field_selector.is_empty());
    assert!(parse_label_selector(info.raw_label_selector()).is_ok() || resource.label_selector.is_empty());
    if info.is_name_selected() {
        assert!(matches!(verb, "list" | "watch"), "AC-32: only these take a name from a selector");
        assert!(!resource.name.is_empty() && !resource.name.contains(['/', '%']), "AC-33");
        assert!(resource.field_selector.iter().any(|r| r.value == resource.name));
    }
}

pub(super) fn kubelet_request(input: &[u8]) -> bool {
    let Some((method, target)) = method_and_target(input) else { return false };
    let (Ok(method), Ok(target)) = (std::str::from_utf8(method), std::str::from_utf8(target)) else {
        return false;
    };
    let settings = |fine_grained| Settings { fine_grained, ..Settings::upstream(FeatureGates::default()) };
    let user = User::default();
    let mut taken = false;
    for target in [Target::from_wire(target), Target::from_reference(target)].into_iter().flatten() {
        let fine = KubeletRequest::new(method, target.clone(), &settings(true));
        let coarse = KubeletRequest::new(method, target.clone(), &settings(false));
        let guarded = KubeletRequest::new(method, target.clone(), &Settings::default());
        let ([fine], [coarse]) = (&*fine.checks().collect::<Vec<_>>(), &*coarse.checks().collect::<Vec<_>>())
        else {
            panic!("KA-26: no verb is forced")
        };
        assert_eq!(coarse.subresources.len(), 1, "without the gate there is one permission");
        assert_eq!(
            fine.subresources.last(),
            coarse.subresources.last(),
            "KA-54: the fine permission is asked for first, the coarse one is enough"
        );
        assert_eq!(guarded.checks().next(), Some(*fine), "the guard asks what a kubelet asks, and more");
        assert_eq!(fine.attributes(&user, "n").len(), fine.subresources.len());
        for set in fine.attributes(&user, "n") {
            let resource = set.resource.expect("a kubelet asks for a resource");
            assert_eq!((set.path, resource.resource, resource.name), (target.path(), "nodes", "n"));
            assert!(!resource.subresource.is_empty(), "never the node itself");
        }
        taken = true;
    }
    taken
}

pub(super) fn kubelet_route(input: &[u8]) -> bool {
    let Ok(target) = std::str::from_utf8(input) else { return false };
    let router = Router::new(true);
    let route = router.route(target);
    if let Route::Redirect(location) = &route {
        assert!(location.starts_with('/') && !location.starts_with("//"), "KA-8: never to another host");
        let again = router.route(location);
        assert!(!matches!(again, Route::Redirect(_) | Route::Malformed), "KA-8: once is enough: {location}");
    }
    let Some(forwarded) = forwardable(target) else { return false };
    let asked = |target| {
        let request = KubeletRequest::new("GET", Target::from_wire(target).ok()?, &Settings::default());
        Some(request.checks().map(|check| (check.verb, check.subresources)).collect::<Vec<_>>())
    };
    // A query may contain bytes that no target allows; it is irrelevant here.
    let path = |target: &str| target.split('?').next().unwrap_or_default().to_owned();
    assert_eq!(asked(&path(target)), asked(&path(&forwarded)), "what is forwarded is what was authorized");
    if !matches!(route, Route::Redirect(_)) {
        assert_eq!(router.route(&forwarded), route, "and goes to the same endpoint");
    }
    assert_eq!(forwardable(&forwarded).as_deref(), Some(&*forwarded), "there is one spelling");
    true
}

pub(super) fn field_selector(input: &[u8]) -> bool {
    let Ok(selector) = std::str::from_utf8(input) else { return false };
    let Ok(mut first) = parse_field_selector(selector) else { return false };
    let mut second = parse_field_selector(&joined(&first)).expect("what was read prints as a selector");
    for requirement in &first {
        let structured = FieldRequirement::from_structured(&requirement.to_structured());
        assert_eq!(structured.as_ref(), Ok(requirement), "the structured form says the same");
    }
    // Terms are sorted as written, and printing may write them differently.
    first.sort();
    second.sort();
    assert_eq!(first, second, "and reads the same");
    true
}

pub(super) fn label_selector(input: &[u8]) -> bool {
    let Ok(selector) = std::str::from_utf8(input) else { return false };
    let Ok(first) = parse_label_selector(selector) else { return false };
    let second = parse_label_selector(&joined(&first));
    assert_eq!(second.as_ref(), Ok(&first), "what was read prints as text that reads the same");
    for requirement in &first {
        let Some(structured) = requirement.to_structured() else { continue };
        let again = LabelRequirement::from_structured(&structured).expect("the structured form is valid");
        assert_eq!(again.to_structured(), Some(structured), "and keeps its meaning");
    }
    true
}

fn joined<R: ToString>(requirements: &[R]) -> String {
    requirements.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
