//! What the audit knows of the API servers: the flags and the version in their pods (AU-15).

use std::collections::BTreeMap;

use super::views::ContainerView;
use crate::chain::Mode;

/// A release of Kubernetes: major and minor.
pub type Release = (u32, u32);

/// The first release whose nodes get tokens only for audiences that a pod uses (E2).
const AUDIENCE_RESTRICTION: Release = (1, 33);
/// The first release in which WebSockets need `create` (KA-83).
const WEBSOCKETS_NEED_CREATE: Release = (1, 35);

/// The flags that are lists: all occurrences count.
const LISTS: [&str; 6] = [
    "authorization-mode",
    "enable-admission-plugins",
    "disable-admission-plugins",
    "feature-gates",
    "api-audiences",
    "service-account-issuer",
];

/// One API server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiServer {
    /// The namespace and name of its pod.
    pub pod: (String, String),
    /// Its release, if its image says so.
    pub release: Option<Release>,
    flags: BTreeMap<String, Vec<String>>,
}

/// All API servers of a state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiServers {
    servers: Vec<ApiServer>,
    /// The release in the answer of `/version`, for servers whose image does not tell.
    pub version: Option<Release>,
}

impl ApiServer {
    /// Reads a container, if it runs an API server.
    pub(super) fn of(container: &ContainerView<'_>, pod: (&str, &str)) -> Option<Self> {
        if container.program() != "kube-apiserver" {
            return None;
        }
        let words: Vec<&str> = container.words().skip(1).map(|word| &**word).collect();
        Some(Self {
            pod: (pod.0.to_owned(), pod.1.to_owned()),
            release: release_of_image(&container.image),
            flags: flags(&words),
        })
    }

    /// The items of a list flag, or the value of another; empty if the flag is not there.
    pub fn flag(&self, name: &str) -> &[String] {
        self.flags.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether NodeRestriction is enabled, and not disabled.
    pub fn has_node_restriction(&self) -> bool {
        let names = |flag: &str| self.flag(flag).iter().any(|plugin| plugin == "NodeRestriction");
        names("enable-admission-plugins") && !names("disable-admission-plugins")
    }

    /// The value of a feature gate; none if the flags do not set it. The last one counts.
    pub fn gate(&self, name: &str) -> Option<bool> {
        let mut values = self.flag("feature-gates").iter().filter_map(|gate| gate.split_once('='));
        values.rfind(|(gate, _)| *gate == name).and_then(|(_, value)| value.parse().ok())
    }

    /// Whether the flags name this mode; none if they name no modes, or those of a file.
    pub fn has_mode(&self, mode: Mode) -> Option<bool> {
        if !self.flag("authorization-config").is_empty() {
            return None;
        }
        match self.flag("authorization-mode") {
            [] => Some(mode == Mode::AlwaysAllow),
            modes => Some(modes.iter().any(|name| name == mode.name())),
        }
    }
}

impl ApiServers {
    pub(super) fn add(&mut self, server: ApiServer) {
        self.servers.push(server);
    }

    /// The servers, in the order of the state.
    pub fn servers(&self) -> &[ApiServer] {
        &self.servers
    }

    /// The lowest release among them; none if that of any is unknown (AU-15).
    pub fn release(&self) -> Option<Release> {
        let mut releases = self.servers.iter().map(|server| server.release.or(self.version));
        match self.servers.is_empty() {
            true => self.version,
            false => releases.try_fold((u32::MAX, 0), |lowest, release| Some(lowest.min(release?))),
        }
    }

    /// Whether nodes are known to get tokens only for audiences that a pod uses (E2).
    pub fn restrict_audiences(&self) -> bool {
        let has_gate =
            |server: &ApiServer| server.gate("ServiceAccountNodeAudienceRestriction") != Some(false);
        self.release().is_some_and(|release| release >= AUDIENCE_RESTRICTION)
            && !self.servers.is_empty()
            && self.servers.iter().all(|server| has_gate(server) && server.has_node_restriction())
    }

    /// Whether NodeRestriction is known to be off in a server.
    pub fn lack_node_restriction(&self) -> bool {
        self.servers.iter().any(|server| !server.has_node_restriction())
    }

    /// Whether `get` may be enough to open a WebSocket into a container (KA-83).
    pub fn may_get_containers(&self) -> bool {
        self.release().is_none_or(|release| release < WEBSOCKETS_NEED_CREATE)
    }

    /// The audiences of a token for the API: the empty one, and those of the flags.
    pub fn audiences(&self) -> Vec<&str> {
        let named = self.servers.iter().flat_map(|server| match server.flag("api-audiences") {
            [] => server.flag("service-account-issuer"),
            audiences => audiences,
        });
        let mut audiences: Vec<&str> = std::iter::once("").chain(named.map(String::as_str)).collect();
        audiences.sort_unstable();
        audiences.dedup();
        audiences
    }
}

/// Flags by name: `--k=v`, `--k v`, or `--k` alone, which means true.
pub(super) fn flags(words: &[&str]) -> BTreeMap<String, Vec<String>> {
    let mut flags = BTreeMap::<String, Vec<String>>::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let Some(flag) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else { continue };
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, value),
            None => (flag, words.next_if(|next| !next.starts_with('-')).copied().unwrap_or("true")),
        };
        let values = flags.entry(name.to_owned()).or_default();
        if LISTS.contains(&name) {
            values.extend(value.split(',').filter(|item| !item.is_empty()).map(str::to_owned));
        } else {
            *values = vec![value.to_owned()];
        }
    }
    flags
}

/// The first `vA.B` or `A.B` in the tag of an image.
fn release_of_image(image: &str) -> Option<Release> {
    let name = image.split('@').next().unwrap_or_default();
    release_in(name.rsplit_once(':')?.1)
}

/// The first `vA.B` or `A.B` in a text.
pub(super) fn release_in(text: &str) -> Option<Release> {
    let bytes = text.as_bytes();
    let starts = (0..bytes.len()).filter(|at| {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        before.is_none_or(|before| !before.is_ascii_digit() && *before != b'.')
    });
    starts.filter_map(|at| release_at(text.get(at..)?)).next()
}

fn release_at(text: &str) -> Option<Release> {
    let (major, rest) = number(text)?;
    let (minor, _) = number(rest.strip_prefix('.')?)?;
    Some((major, minor))
}

fn number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    Some((digits.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_the_first_version_of_the_tag_au_15() {
        for (image, release) in [
            ("registry.k8s.io/kube-apiserver:v1.36.2", Some((1, 36))),
            ("host:5000/kube-apiserver:1.31", Some((1, 31))),
            ("host/kube-apiserver:v1.34.1@sha256:12.5", Some((1, 34))),
            ("host/kube-apiserver:release-v1.33.0-1", Some((1, 33))),
            ("host/kube-apiserver", None),
            ("host/kube-apiserver:latest", None),
        ] {
            assert_eq!(release_of_image(image), release, "{image}");
        }
    }

    #[test]
    fn of_lists_all_occurrences_count_and_of_others_the_last_au_15() {
        let words = [
            "--authorization-mode=Node",
            "--authorization-mode",
            "RBAC,Webhook",
            "--anonymous-auth=true",
            "--profiling",
            "--anonymous-auth=false",
        ];
        let server = ApiServer { flags: flags(&words), ..ApiServer::default() };
        assert_eq!(server.flag("authorization-mode"), ["Node", "RBAC", "Webhook"]);
        assert_eq!(server.flag("anonymous-auth"), ["false"]);
        assert_eq!(server.flag("profiling"), ["true"]);
        assert_eq!(server.has_mode(Mode::Node), Some(true));
        assert_eq!(ApiServer::default().has_mode(Mode::AlwaysAllow), Some(true));
    }
}
