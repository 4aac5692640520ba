//! Derives the request attributes from method and URL: verb, namespace, resource, name and selectors (AC-10 to AC-49).
//!
//! This module does not check that a group, version or resource exists (AC-17), and looks nothing up. A request is
//! parsed once, when it arrives; calling an authorizer afterwards copies nothing.

use std::borrow::Cow;
use std::ops::Range;

use portcullis_apimachinery::selector::{
    FieldOperator, FieldRequirement, LabelRequirement, SelectorError, parse_field_selector,
    parse_label_selector,
};
use portcullis_apimachinery::target::{Target, TargetError};
use serde::ser::{Serialize, Serializer};

use crate::request::{Attributes, ResourceRequest, User};

/// The parsed attributes of one request.
#[derive(Clone, Debug)]
pub struct RequestInfo {
    path: String,
    verb: Cow<'static, str>,
    is_resource_request: bool,
    prefix: Span,
    group: Span,
    version: Span,
    namespace: Span,
    /// Resource, name, subresource and the rest, separated by slashes.
    parts: Span,
    resource: Span,
    name: Name,
    subresource: Span,
    field_selector: Selector<FieldRequirement>,
    label_selector: Selector<LabelRequirement>,
}

/// A byte range of the path. The empty span is the empty string.
type Span = Range<usize>;

#[derive(Clone, Debug)]
enum Name {
    InPath(Span),
    /// From the field selector (AC-32).
    Selected(String),
}

/// A selector, raw and parsed.
#[derive(Clone, Debug)]
struct Selector<R> {
    raw: String,
    requirements: Vec<R>,
    error: Option<SelectorError>,
}

impl<R> Default for Selector<R> {
    fn default() -> Self {
        Self { raw: String::new(), requirements: Vec::new(), error: None }
    }
}

impl<R> Selector<R> {
    /// A selector that cannot be parsed has no requirements (AC-46).
    fn read(raw: String, parse: impl Fn(&str) -> Result<Vec<R>, SelectorError>) -> Self {
        match parse(&raw) {
            Ok(requirements) => Self { raw, requirements, error: None },
            Err(error) => Self { raw, requirements: Vec::new(), error: Some(error) },
        }
    }
}

/// A request that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestInfoError {
    /// The target cannot be decoded. The response is 400 Bad Request.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The path ends after `watch` or `proxy` (AC-24). The response is 500 Internal Server Error (AC-5).
    #[error("unable to determine kind and namespace from url, {0}")]
    NoResource(String),
}

impl RequestInfo {
    /// Parses a request from the wire (AC-49).
    ///
    /// # Errors
    /// See [`RequestInfoError`].
    pub fn parse(method: &str, target: &str) -> Result<Self, RequestInfoError> {
        Self::of(method, Target::from_wire(target)?)
    }

    /// Parses a method and a URL reference, the form of the recordings (AC-49).
    ///
    /// # Errors
    /// See [`RequestInfoError`].
    pub fn parse_reference(method: &str, url: &str) -> Result<Self, RequestInfoError> {
        Self::of(method, Target::from_reference(url)?)
    }

    /// Parses a method and a target that is already split.
    ///
    /// # Errors
    /// The path ends after `watch` or `proxy`, or a selector is not UTF-8.
    pub fn of(method: &str, target: Target<'_>) -> Result<Self, RequestInfoError> {
        let path = target.path();
        let mut info = Self::non_resource(method, path.to_owned());
        let mut parts = Parts::of(path);
        // AC-13
        if parts.clone().nth(2).is_none() {
            return Ok(info);
        }
        // AC-14 to AC-16
        let prefix = parts.pop();
        match parts.text(&prefix) {
            "api" => info.prefix = prefix,
            "apis" => {
                info.prefix = prefix;
                if parts.clone().nth(2).is_none() {
                    return Ok(info);
                }
                info.group = parts.pop();
            }
            _ => return Ok(info),
        }
        info.is_resource_request = true;
        info.version = parts.pop();

        // AC-20 to AC-24
        let verb_of_path = match parts.text(&parts.clone().pop()) {
            "watch" => Some("watch"),
            "proxy" => Some("proxy"),
            _ => None,
        };
        info.verb = Cow::Borrowed(verb_of_path.unwrap_or_else(|| resource_verb(method)));
        if verb_of_path.is_some() {
            parts.pop();
            if parts.is_done() {
                return Err(RequestInfoError::NoResource(target.as_str().to_owned()));
            }
        }

        info.read_object(parts);
        if verb_of_path.is_none() {
            info.read_query(&target)?;
        }
        Ok(info)
    }

    /// AC-12
    fn non_resource(method: &str, path: String) -> Self {
        Self {
            path,
            verb: non_resource_verb(method),
            is_resource_request: false,
            prefix: Span::default(),
            group: Span::default(),
            version: Span::default(),
            namespace: Span::default(),
            parts: Span::default(),
            resource: Span::default(),
            name: Name::InPath(Span::default()),
            subresource: Span::default(),
            field_selector: Selector::default(),
            label_selector: Selector::default(),
        }
    }

    /// Namespace, resource, name and subresource (AC-25 to AC-29).
    fn read_object(&mut self, mut parts: Parts<'_>) {
        let mut ahead = parts.clone();
        if parts.text(&ahead.pop()) == "namespaces" {
            self.namespace = ahead.pop();
            let third = ahead.clone().next();
            // AC-28: only these two words are subresources of a namespace.
            if third.is_some_and(|third| !matches!(parts.text(&third), "status" | "finalize")) {
                parts = ahead;
            }
        }
        self.parts = parts.rest.clone().unwrap_or_default();
        self.resource = parts.pop();
        self.name = Name::InPath(parts.pop());
        // AC-22, AC-27
        if self.verb != "proxy" {
            self.subresource = parts.pop();
        }
    }

    /// list, watch, deletecollection and their selectors (AC-30 to AC-39, NA-16 to NA-20). Not for verbs that come from
    /// the path (NA-19).
    fn read_query(&mut self, target: &Target<'_>) -> Result<(), TargetError> {
        let collection = self.name().is_empty();
        let reads_list = match &*self.verb {
            "get" if collection => true,
            "delete" if collection => {
                self.verb = Cow::Borrowed("deletecollection");
                false
            }
            _ => return Ok(()),
        };
        let [field, label, watch, limit, timeout] =
            target.first_values(["fieldSelector", "labelSelector", "watch", "limit", "timeoutSeconds"])?;
        let text = |value: Option<Cow<'_, str>>| value.map(Cow::into_owned).unwrap_or_default();
        self.field_selector = Selector::read(text(field), parse_field_selector);
        self.label_selector = Selector::read(text(label), parse_label_selector);
        if !reads_list {
            return Ok(());
        }

        // AC-31: any value but these two means true, also the empty one.
        let watches = watch.is_some_and(|word| word != "0" && !word.eq_ignore_ascii_case("false"));
        self.verb = Cow::Borrowed(if watches { "watch" } else { "list" });
        // AC-34: if any option is invalid, the selector names no object.
        let is_number = |value: Option<Cow<'_, str>>| value.is_none_or(|v| v.parse::<i64>().is_ok());
        let readable = self.field_selector.error.is_none()
            && self.label_selector.error.is_none()
            && is_number(limit)
            && is_number(timeout);
        if readable && let Some(name) = selected_name(&self.field_selector.requirements) {
            self.name = Name::Selected(name.to_owned());
        }
        Ok(())
    }

    /// Returns the attributes for this user (AC-40).
    pub fn attributes<'a>(&'a self, user: &'a User) -> Attributes<'a> {
        Attributes {
            user,
            verb: self.verb(),
            path: self.path(),
            resource: self.is_resource_request.then(|| ResourceRequest {
                namespace: self.namespace(),
                group: self.group(),
                version: self.version(),
                resource: self.resource(),
                subresource: self.subresource(),
                name: self.name(),
                field_selector: &self.field_selector.requirements,
                label_selector: &self.label_selector.requirements,
            }),
        }
    }

    fn span(&self, span: &Span) -> &str {
        self.path.get(span.clone()).unwrap_or_default()
    }

    /// The decoded path, not normalized (AC-11).
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The verb; empty for methods that no resource knows (AC-20), and any word of a review (AC-43).
    pub fn verb(&self) -> &str {
        &self.verb
    }

    /// Whether this asks for a resource, or for the bare path (AC-17, AC-18).
    pub fn is_resource_request(&self) -> bool {
        self.is_resource_request
    }

    /// `api` or `apis`; also set for a non-resource path below `/apis` with at least three parts (AC-15).
    pub fn prefix(&self) -> &str {
        self.span(&self.prefix)
    }

    /// The API group; empty for the core group.
    pub fn group(&self) -> &str {
        self.span(&self.group)
    }

    /// The API version.
    pub fn version(&self) -> &str {
        self.span(&self.version)
    }

    /// The namespace; also for the Namespace object itself (AC-25).
    pub fn namespace(&self) -> &str {
        self.span(&self.namespace)
    }

    /// The resource, plural.
    pub fn resource(&self) -> &str {
        self.span(&self.resource)
    }

    /// The subresource.
    pub fn subresource(&self) -> &str {
        self.span(&self.subresource)
    }

    /// The object's name, from the path or from the field selector (AC-32).
    pub fn name(&self) -> &str {
        match &self.name {
            Name::InPath(span) => self.span(span),
            Name::Selected(name) => name,
        }
    }

    /// Returns whether the name comes from the field selector (AC-32), so that the path is that of the collection.
    pub fn is_name_selected(&self) -> bool {
        matches!(self.name, Name::Selected(_))
    }

    /// Resource, name, subresource, and further path segments; none for a non-resource request (AC-27).
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        let parts = self.is_resource_request.then(|| self.span(&self.parts).split('/'));
        parts.into_iter().flatten()
    }

    /// The field selector as sent, of list, watch and deletecollection (AC-38, AC-39).
    pub fn raw_field_selector(&self) -> &str {
        &self.field_selector.raw
    }

    /// The label selector as sent, of list, watch and deletecollection (AC-38, AC-39).
    pub fn raw_label_selector(&self) -> &str {
        &self.label_selector.raw
    }
}

/// AC-20, NA-15. Method names are case-sensitive (AC-36).
fn resource_verb(method: &str) -> &'static str {
    match method {
        "POST" => "create",
        "GET" | "HEAD" => "get",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    }
}

fn non_resource_verb(method: &str) -> Cow<'static, str> {
    Cow::Borrowed(match method {
        "GET" => "get",
        "HEAD" => "head",
        "POST" => "post",
        "PUT" => "put",
        "PATCH" => "patch",
        "DELETE" => "delete",
        "OPTIONS" => "options",
        other => return Cow::Owned(other.to_lowercase()),
    })
}

/// Returns the name of the first exact `metadata.name` term, if it is a valid path segment (AC-32, AC-33).
fn selected_name(requirements: &[FieldRequirement]) -> Option<&str> {
    let name = requirements
        .iter()
        .find(|r| r.operator == FieldOperator::Equals && r.field == "metadata.name")
        .map(|r| r.value.as_str())?;
    (!matches!(name, "" | "." | "..") && !name.contains(['/', '%'])).then_some(name)
}

/// Iterates over the segments of a path, as spans (AC-10).
#[derive(Clone)]
struct Parts<'a> {
    path: &'a str,
    /// The rest of the path; `None` after the last segment.
    rest: Option<Span>,
}

impl<'a> Parts<'a> {
    fn of(path: &'a str) -> Self {
        let end = path.trim_end_matches('/').len();
        let start = path.len() - path.trim_start_matches('/').len();
        Self { path, rest: (start < end).then_some(start..end) }
    }

    fn text(&self, span: &Span) -> &'a str {
        self.path.get(span.clone()).unwrap_or_default()
    }

    /// Returns the next segment, or the empty span if there is none.
    fn pop(&mut self) -> Span {
        self.next().unwrap_or_default()
    }

    fn is_done(&self) -> bool {
        self.rest.is_none()
    }
}

impl Iterator for Parts<'_> {
    type Item = Span;

    fn next(&mut self) -> Option<Span> {
        let rest = self.rest.take()?;
        // Segments are short: a search that is made for long texts takes longer.
        match self.text(&rest).bytes().position(|byte| byte == b'/') {
            Some(length) => {
                let end = rest.start + length;
                self.rest = Some(end + 1..rest.end);
                Some(rest.start..end)
            }
            None => Some(rest),
        }
    }
}

impl Serialize for RequestInfo {
    /// Uses the field names of Kubernetes; `parts` is `null` for a non-resource request.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Fields<'a> {
            api_group: &'a str,
            api_prefix: &'a str,
            api_version: &'a str,
            field_selector: &'a str,
            is_resource_request: bool,
            label_selector: &'a str,
            name: &'a str,
            namespace: &'a str,
            parts: Option<Vec<&'a str>>,
            path: &'a str,
            resource: &'a str,
            subresource: &'a str,
            verb: &'a str,
        }
        let fields = Fields {
            api_group: self.group(),
            api_prefix: self.prefix(),
            api_version: self.version(),
            field_selector: self.raw_field_selector(),
            is_resource_request: self.is_resource_request,
            label_selector: self.raw_label_selector(),
            name: self.name(),
            namespace: self.namespace(),
            parts: self.is_resource_request.then(|| self.parts().collect()),
            path: self.path(),
            resource: self.resource(),
            subresource: self.subresource(),
            verb: self.verb(),
        };
        fields.serialize(serializer)
    }
}

#[cfg(test)]
mod tests;
