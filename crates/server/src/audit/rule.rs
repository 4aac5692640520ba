//! One rule of an audit policy: which users and requests it matches.

use policy::User;
use policy::request_info::RequestInfo;
use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::names::is_dns_subdomain;
use portcullis_apimachinery::quote::quoted;
use serde::Deserialize;

use super::level::{Level, Stages};
use super::wanted::Wanted;

/// A rule as it is written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Rules {
    #[serde(default)]
    level: Option<String>,
    #[serde(default)]
    users: Option<Vec<String>>,
    #[serde(default)]
    user_groups: Option<Vec<String>>,
    #[serde(default)]
    verbs: Option<Vec<String>>,
    #[serde(default)]
    resources: Option<Vec<Resources>>,
    #[serde(default)]
    namespaces: Option<Vec<String>>,
    #[serde(default, rename = "nonResourceURLs")]
    non_resource_urls: Option<Vec<String>>,
    #[serde(default)]
    omit_stages: Option<Vec<String>>,
    #[serde(default)]
    omit_managed_fields: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Resources {
    #[serde(default)]
    group: Option<String>,
    #[serde(default)]
    resources: Option<Vec<String>>,
    #[serde(default)]
    resource_names: Option<Vec<String>>,
}

/// A validated rule. An empty list matches everything.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    wanted: Wanted,
    users: Vec<String>,
    user_groups: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<GroupResources>,
    namespaces: Vec<String>,
    non_resource_urls: Vec<String>,
}

/// Resources of one group.
#[derive(Clone, Debug)]
struct GroupResources {
    group: String,
    /// Empty for all resources of the group.
    resources: Vec<String>,
    names: Vec<String>,
}

impl Rules {
    /// Validates the rule, and returns its errors.
    pub(super) fn checked(
        self,
        path: &str,
        omitted: Stages,
        omits_managed_fields: bool,
        errors: &mut Vec<FieldError>,
    ) -> Rule {
        let level = match self.level.as_deref().unwrap_or_default() {
            "" => {
                errors.push(FieldError::required(format!("{path}.level"), ""));
                Level::None
            }
            name => Level::named(name).unwrap_or_else(|| {
                let known = Level::ALL.map(Level::name);
                errors.push(FieldError::not_supported(format!("{path}.level"), quoted(name), &known));
                Level::None
            }),
        };
        let urls = self.non_resource_urls.unwrap_or_default();
        for (at, url) in urls.iter().enumerate() {
            check_url(url, &format!("{path}.nonResourceURLs[{at}]"), errors);
        }
        let resources: Vec<GroupResources> = self
            .resources
            .unwrap_or_default()
            .into_iter()
            .enumerate()
            .map(|(at, resources)| resources.checked(&format!("{path}.resources[{at}]"), errors))
            .collect();
        let namespaces = self.namespaces.unwrap_or_default();
        let names_resources = !resources.is_empty() || !namespaces.is_empty();
        if !urls.is_empty() && names_resources {
            errors.push(FieldError::invalid(
                format!("{path}.nonResourceURLs"),
                format!("{urls:?}"),
                "a rule is for resources or for other URLs, not for both: write two rules",
            ));
        }
        let own = self.omit_stages.unwrap_or_default();
        let wanted = Wanted {
            level,
            omitted: omitted.and(Stages::read(&own, &format!("{path}.omitStages"), errors)),
            omits_managed_fields: self.omit_managed_fields.unwrap_or(omits_managed_fields),
            omits_messages: false,
        };
        Rule {
            wanted,
            users: self.users.unwrap_or_default(),
            user_groups: self.user_groups.unwrap_or_default(),
            verbs: self.verbs.unwrap_or_default(),
            resources,
            namespaces,
            non_resource_urls: urls,
        }
    }
}

impl Resources {
    fn checked(self, path: &str, errors: &mut Vec<FieldError>) -> GroupResources {
        let group = self.group.unwrap_or_default();
        // The empty group is the core group.
        if !group.is_empty() && !is_dns_subdomain(&group) {
            let detail =
                "a group is lower case, such as apps or rbac.authorization.k8s.io, and has no version";
            errors.push(FieldError::invalid(format!("{path}.group"), quoted(&group), detail));
        }
        let resources = self.resources.unwrap_or_default();
        let names = self.resource_names.unwrap_or_default();
        if !names.is_empty() && resources.is_empty() {
            errors.push(FieldError::invalid(
                format!("{path}.resourceNames"),
                format!("{names:?}"),
                "resourceNames require at least one resource",
            ));
        }
        GroupResources { group, resources, names }
    }
}

fn check_url(url: &str, path: &str, errors: &mut Vec<FieldError>) {
    if url == "*" {
        return;
    }
    if !url.starts_with('/') {
        errors.push(FieldError::invalid(path, quoted(url), "must begin with / or be *"));
    }
    if url.strip_suffix('*').unwrap_or(url).contains('*') {
        errors.push(FieldError::invalid(path, quoted(url), "* is for the end only"));
    }
}

/// Returns whether a list is empty or contains the value.
fn allows(list: &[String], value: &str) -> bool {
    list.is_empty() || list.iter().any(|entry| entry == value)
}

impl Rule {
    /// Returns what the rule logs.
    pub(super) fn wanted(&self) -> Wanted {
        self.wanted
    }

    /// Returns whether the rule matches this request.
    pub(super) fn fits(&self, user: Option<&User>, info: &RequestInfo) -> bool {
        let fits_user = self.users.is_empty() || user.is_some_and(|user| allows(&self.users, &user.name));
        let fits_group = self.user_groups.is_empty()
            || user.is_some_and(|user| user.groups.iter().any(|group| self.user_groups.contains(group)));
        if !fits_user || !fits_group || !allows(&self.verbs, info.verb()) {
            return false;
        }
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            return self.fits_resource(info);
        }
        self.non_resource_urls.is_empty() || self.fits_url(info)
    }

    /// The namespace of cluster-scoped objects is empty.
    fn fits_resource(&self, info: &RequestInfo) -> bool {
        info.is_resource_request()
            && allows(&self.namespaces, info.namespace())
            && (self.resources.is_empty() || self.resources.iter().any(|entry| entry.fits(info)))
    }

    fn fits_url(&self, info: &RequestInfo) -> bool {
        let path = info.path();
        !info.is_resource_request()
            && self.non_resource_urls.iter().any(|url| match url.strip_suffix('*') {
                Some(prefix) => path.starts_with(prefix),
                None => url == path,
            })
    }

    /// Returns whether the rule names the resource of the request explicitly.
    pub(super) fn names(&self, info: &RequestInfo) -> bool {
        self.resources.iter().filter(|entry| entry.fits(info)).any(|entry| {
            entry.resources.iter().any(|text| {
                text.split_once('/').map_or(text.as_str(), |(resource, _)| resource) == info.resource()
            })
        })
    }
}

impl GroupResources {
    /// `pods` matches only pods, `pods/log` one subresource, `pods/*` pods and all their subresources, `*/scale` that
    /// subresource of all resources, `*` everything.
    fn fits(&self, info: &RequestInfo) -> bool {
        if self.group != info.group() {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        if !allows(&self.names, info.name()) {
            return false;
        }
        let (resource, subresource) = (info.resource(), info.subresource());
        self.resources.iter().any(|text| match text.split_once('/') {
            _ if text == "*" => true,
            None => subresource.is_empty() && text == resource,
            Some(("*", sub)) => !subresource.is_empty() && sub == subresource,
            Some((of, "*")) => of == resource,
            Some((of, sub)) => of == resource && !subresource.is_empty() && sub == subresource,
        })
    }
}
