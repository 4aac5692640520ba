//! What the audit knows of the API servers: the flags and the version in their pods (AU-15).

use std::collections::BTreeMap;

use super::pod::PodFacts;
use super::views::ContainerView;
use crate::chain::Mode;
use crate::objects::decode::Text;

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
    /// The node of the pod; empty if it has none.
    pub node: String,
    /// Its release, if its image says so.
    pub release: Option<Release>,
    /// Where its words are.
    pub command_line: CommandLine,
    flags: BTreeMap<String, Vec<String>>,
}

/// The command line of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// The place of the container, as a JSON pointer.
    pub pointer: String,
    /// The words of `command`, the program first.
    pub command: Vec<String>,
    /// The words of `args`; the program first if `command` is empty.
    pub args: Vec<String>,
    /// Whether words are left out, as in archives (AU-20): then it cannot be patched.
    pub is_reduced: bool,
}

impl CommandLine {
    /// The words behind the program.
    fn flags(&self) -> BTreeMap<String, Vec<String>> {
        let words: Vec<&str> = self.command.iter().chain(&self.args).skip(1).map(String::as_str).collect();
        flags(&words)
    }

    /// Sets a flag in place of each of its occurrences, or takes it away. Only the first keeps its place.
    pub fn set(&mut self, name: &str, value: Option<&str>) {
        let mut word = value.map(|value| format!("--{name}={value}"));
        for words in [&mut self.command, &mut self.args] {
            let mut kept = Vec::with_capacity(words.len());
            let mut left = words.drain(..).peekable();
            while let Some(old) = left.next() {
                let flag = old.strip_prefix("--").or_else(|| old.strip_prefix('-'));
                match flag.map(|flag| flag.split_once('=').map_or((flag, false), |(name, _)| (name, true))) {
                    Some((found, has_value)) if found == name => {
                        if !has_value {
                            drop(left.next_if(|next| !next.starts_with('-')));
                        }
                        kept.extend(word.take());
                    }
                    _ => kept.push(old),
                }
            }
            drop(left);
            *words = kept;
        }
        let last = if self.args.is_empty() { &mut self.command } else { &mut self.args };
        last.extend(word);
    }
}

/// All API servers of a state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiServers {
    servers: Vec<ApiServer>,
    /// The release in the answer of `/version`, for servers whose image does not tell.
    pub version: Option<Release>,
    /// The modes of the AuthorizationConfiguration in the state, for servers that have theirs from a file.
    pub(super) modes_of_file: Option<Vec<String>>,
}

impl ApiServer {
    /// Reads a container at a place in a pod, if it runs an API server.
    pub(super) fn of(container: &ContainerView<'_>, pointer: &str, pod: &PodFacts) -> Option<Self> {
        if container.program() != "kube-apiserver" {
            return None;
        }
        let words = |list: &[Text<'_>]| list.iter().map(|word| (**word).to_owned()).collect();
        let command_line = CommandLine {
            pointer: pointer.to_owned(),
            command: words(&container.command),
            args: words(&container.args),
            is_reduced: container.command_is_reduced,
        };
        Some(Self {
            pod: (pod.namespace.clone(), pod.name.clone()),
            node: pod.node.clone(),
            release: release_of_image(&container.image),
            flags: command_line.flags(),
            command_line,
        })
    }

    /// The same server with another command line.
    pub(in crate::audit) fn with(&self, command_line: CommandLine) -> Self {
        Self { flags: command_line.flags(), command_line, ..self.clone() }
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
}

impl ApiServers {
    pub(super) fn add(&mut self, server: ApiServer) {
        self.servers.push(server);
    }

    /// The modes of a server: those of its flags, or of the file that they name; none if that is not in the state. Without flags for
    /// modes, everything is allowed.
    pub fn modes<'a>(&'a self, server: &'a ApiServer) -> Option<&'a [String]> {
        match server.flag("authorization-config") {
            [] => Some(server.flag("authorization-mode")),
            // An API server does not start without any.
            _ => self.modes_of_file.as_deref().filter(|modes| !modes.is_empty()),
        }
    }

    /// Whether a server has this mode; none if its modes are not known.
    pub fn has_mode(&self, server: &ApiServer, mode: Mode) -> Option<bool> {
        let modes = self.modes(server)?;
        let is_default = modes.is_empty() && mode == Mode::AlwaysAllow;
        Some(is_default || modes.iter().any(|name| name == mode.name()))
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
        let servers = ApiServers::default();
        assert_eq!(servers.has_mode(&server, Mode::Node), Some(true));
        assert_eq!(servers.has_mode(&ApiServer::default(), Mode::AlwaysAllow), Some(true));
    }

    #[test]
    fn a_flag_is_set_in_place_of_all_its_occurrences() {
        let line = |command: &[&str], args: &[&str]| CommandLine {
            command: command.iter().map(ToString::to_string).collect(),
            args: args.iter().map(ToString::to_string).collect(),
            ..CommandLine::default()
        };
        let mut both = line(&["kube-apiserver", "--a", "1", "--b=2"], &["--c", "-a=3", "--ab=4"]);
        both.set("a", Some("5"));
        assert_eq!(both, line(&["kube-apiserver", "--a=5", "--b=2"], &["--c", "--ab=4"]));
        both.set("a", None);
        assert_eq!(both, line(&["kube-apiserver", "--b=2"], &["--c", "--ab=4"]));
        both.set("d", Some("6"));
        assert_eq!(both, line(&["kube-apiserver", "--b=2"], &["--c", "--ab=4", "--d=6"]));
        let mut command = line(&["kube-apiserver", "--c"], &[]);
        command.set("d", Some("6"));
        assert_eq!(command, line(&["kube-apiserver", "--c", "--d=6"], &[]));
    }

    #[test]
    fn modes_of_a_file_are_known_if_the_state_has_it_au_12() {
        let server =
            ApiServer { flags: flags(&["--authorization-config=/etc/authz.yaml"]), ..ApiServer::default() };
        assert_eq!(ApiServers::default().has_mode(&server, Mode::Node), None);
        let modes_of_file = Some(vec!["RBAC".to_owned()]);
        let servers = ApiServers { modes_of_file, ..ApiServers::default() };
        assert_eq!(servers.has_mode(&server, Mode::Node), Some(false));
        assert_eq!(servers.has_mode(&server, Mode::Rbac), Some(true));
        assert_eq!(servers.has_mode(&server, Mode::AlwaysAllow), Some(false));
    }
}
