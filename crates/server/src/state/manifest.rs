//! The manifest of an archive: what a cluster was asked for, and what came of it (AU-20).

use std::collections::{BTreeMap, BTreeSet};

use policy::audit::inputs::Input;
use policy::audit::state::{ItemKind, Listing};
use policy::audit::{Incomplete, Why};
use serde::{Deserialize, Serialize};

/// The name of the manifest in an archive.
pub const MANIFEST: &str = "manifest.json";
/// The `apiVersion` of manifests, which is the format of the archive. No other version is read.
pub const API_VERSION: &str = "portcullis.dev/v1";
/// The kind of manifests.
pub const KIND: &str = "AuditArchive";

/// The manifest of an archive, with the fields of its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    /// [`API_VERSION`].
    pub api_version: String,
    /// [`KIND`].
    pub kind: String,
    /// The version of the program that wrote it.
    pub tool_version: String,
    /// When the cluster was asked, in RFC 3339. Nothing else changes while the cluster does not.
    pub time: String,
    /// The `gitVersion` of the server; empty if it did not say.
    pub server_version: String,
    /// The name of the context of the kubeconfig; empty if there is none that may be told.
    pub context: String,
    /// Each resource, by group and name.
    pub resources: Vec<Entry>,
    /// Objects that were asked for by their names.
    pub objects: Vec<Named>,
}

/// What came of asking for a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Entry {
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural name.
    pub resource: String,
    /// Whether the cluster was asked.
    pub asked: bool,
    /// What came of it.
    pub outcome: Outcome,
    /// The status code of a refusal, or of another failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u16>,
    /// How many objects are in the file of the resource.
    pub count: u64,
    /// How many objects are left out, because they are not as their kind wants.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub undecodable: u64,
    /// The revision of the list; empty without one.
    pub resource_version: String,
}

/// What came of asking for one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Named {
    /// The resource, or the path.
    pub resource: String,
    /// The namespace; empty without one.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// What came of it.
    pub outcome: Outcome,
    /// The status code of a refusal, or of another failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u16>,
}

/// What came of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// All there is was listed.
    Listed,
    /// The server lacks the API, or the object: there is none.
    Absent,
    /// 401 or 403.
    Refused,
    /// It could not be read for another reason.
    Failed,
    /// Nobody asked.
    NotAsked,
}

impl Outcome {
    /// What of it makes an answer incomplete.
    fn why(self) -> Option<Why> {
        match self {
            Self::Refused => Some(Why::Refused),
            Self::Failed => Some(Why::Failed),
            Self::Listed | Self::Absent | Self::NotAsked => None,
        }
    }
}

impl Manifest {
    /// Whether something that was asked for is missing.
    pub fn is_incomplete(&self) -> bool {
        self.resources.iter().any(|entry| entry.lack().is_some())
            || self.objects.iter().any(|object| object.outcome.why().is_some())
    }

    /// Each kind that an audit reads, and what is known of its list (AU-23). A kind that was not asked for is left out.
    pub fn listings(&self) -> impl Iterator<Item = (ItemKind, Listing)> {
        self.resources.iter().filter_map(|entry| {
            let kind = Input::find(&entry.group, &entry.resource)?.item_kind()?;
            let listing = match entry.lack() {
                Some((why, detail)) => Listing::Lacking(why, detail),
                None if entry.asked => Listing::Whole,
                None => return None,
            };
            Some((kind, listing))
        })
    }

    /// What is missing beside the kinds that an audit reads: no rule depends on it yet.
    pub fn incomplete(&self) -> impl Iterator<Item = Incomplete> {
        let unread =
            |entry: &&Entry| Input::find(&entry.group, &entry.resource).and_then(Input::item_kind).is_none();
        let resources = self.resources.iter().filter(unread).filter_map(|entry| {
            let (why, detail) = entry.lack()?;
            Some((entry.resource.clone(), why, detail))
        });
        // Many kubelets fail alike.
        let mut objects = BTreeMap::<(String, Why, String), u64>::new();
        for object in &self.objects {
            if let Some(why) = object.outcome.why() {
                let detail = refusal(object.outcome, object.code);
                let count = objects.entry((object.input(), why, detail)).or_default();
                *count = count.saturating_add(1);
            }
        }
        let objects = objects.into_iter().map(|((input, why, detail), count)| {
            let detail = if count > 1 { format!("{detail}, {count} times") } else { detail };
            (input, why, detail)
        });
        resources.chain(objects).map(|(input, why, detail)| Incomplete {
            input,
            why,
            rules: Vec::new(),
            detail,
        })
    }

    /// The name of the file of each resource, and how many objects are in it.
    pub(super) fn files(&self) -> impl Iterator<Item = (String, u64)> {
        self.resources
            .iter()
            .filter(|entry| entry.has_file())
            .map(|entry| (file_of(&entry.group, &entry.resource), entry.count))
    }
}

impl Entry {
    /// Whether the archive has a file for it.
    pub fn has_file(&self) -> bool {
        self.count > 0 || self.outcome == Outcome::Listed
    }

    /// Why objects are missing, and the same for people.
    fn lack(&self) -> Option<(Why, String)> {
        match self.outcome.why() {
            Some(why) => Some((why, refusal(self.outcome, self.code))),
            None if self.undecodable > 0 => {
                Some((Why::Undecodable, format!("{} are not as their kind wants", self.undecodable)))
            }
            None => None,
        }
    }
}

impl Named {
    /// The name of the input (AU-21).
    fn input(&self) -> String {
        match self.resource.as_str() {
            "configmaps" | "nodes/configz" => "kubelet-configuration",
            "/version" => "kube-apiserver-version",
            other => other,
        }
        .to_owned()
    }
}

fn refusal(outcome: Outcome, code: Option<u16>) -> String {
    let how =
        if outcome == Outcome::Refused { "the cluster refused it" } else { "the cluster did not give it" };
    code.map_or_else(|| how.to_owned(), |code| format!("{how} ({code})"))
}

/// The name of the file with the objects of a resource. The core group is called so, as by `portcullis store export`.
pub fn file_of(group: &str, resource: &str) -> String {
    let group = if group.is_empty() { "core" } else { group };
    format!("{resource}.{group}.jsonl.gz")
}

/// The resources of several manifests must be known once each. Returns the first that is not.
pub(super) fn twice(manifest: &Manifest) -> Option<&Entry> {
    let mut seen = BTreeSet::new();
    manifest.resources.iter().find(|entry| !seen.insert((&entry.group, &entry.resource)))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
