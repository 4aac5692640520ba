//! Reads a cluster once, and reduces its objects.

use bytes::Bytes;
use portcullis_apimachinery::names::is_dns_subdomain;
use portcullis_client::kubelets::{Kubelet, KubeletClient};
use portcullis_client::snapshot::{self, List};
use portcullis_client::{CallError, Connection};
use portcullis_policy::audit::inputs::{Form, INPUTS, Input};
use portcullis_policy::audit::state::Item;
use portcullis_server::state::manifest::{API_VERSION, Entry, KIND, Manifest, Named, Outcome};
use serde_json::{Value, json};

use super::keep::Keep;
use super::{computed, fields};

/// The namespace and the name of the ConfigMap with the configuration of kubelets (AU-13).
const KUBELET_CONFIG: (&str, &str) = ("kube-system", "kubelet-config");

/// The port of a kubelet that does not say its own.
const KUBELET_PORT: u16 = 10250;
/// How many kubelets that do not answer are named.
const NAMED: usize = 5;

/// Optional inputs of a collection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wants {
    /// Secrets and ConfigMaps, as their metadata alone.
    pub(crate) secret_metadata: bool,
    /// The configuration of each kubelet, from itself.
    pub(crate) kubelets: Option<KubeletClient>,
}

/// The objects of a cluster.
#[derive(Debug)]
pub(crate) struct Collection {
    /// What was asked, and what came of it.
    pub(crate) manifest: Manifest,
    /// The answer of `/version`.
    pub(crate) version: Option<String>,
    /// The objects of each resource of the manifest, sorted by namespace and name.
    pub(crate) objects: Vec<Vec<Collected>>,
    /// The configuration of kubelets, by node, as `/configz` gives it.
    pub(crate) kubelets: Vec<(String, String)>,
    /// What the server said where something is missing: the input, and the message.
    pub(crate) troubles: Vec<(String, String)>,
}

/// An object, reduced.
#[derive(Debug)]
pub(crate) struct Collected {
    namespace: String,
    name: String,
    /// In one line of JSON.
    pub(crate) json: String,
}

impl Collection {
    /// Reads a cluster. Secrets and ConfigMaps are listed only if they are wanted, and never with their values.
    ///
    /// # Errors
    /// The cluster cannot be reached.
    pub(crate) async fn read(connection: &Connection, wants: &Wants, time: &str) -> Result<Self, CallError> {
        // Asked first: who cannot be reached is told at once.
        let version = match snapshot::read_path(connection, "/version").await {
            Err(error @ CallError::Unreachable { .. }) => return Err(error),
            answer => answer,
        };
        let mut collection = Self::empty(context(connection), time);
        collection.take_version(version);
        let config = kubelet_config(connection).await;
        let is_asked = |input: &&Input| input.form == Form::Whole || wants.secret_metadata;
        let keeps: Vec<(&Input, Keep)> = INPUTS.iter().map(|input| (input, fields::of(input))).collect();
        let reduce = |input: &'static Input, version: &'static str, json: Bytes| {
            let keep = keeps.iter().find(|(of, _)| *of == input).map(|(_, keep)| keep);
            keep.ok_or_else(String::new).and_then(|keep| reduced(keep, input, version, &json))
        };
        let mut lists = snapshot::read_inputs(connection, INPUTS.iter().filter(is_asked), reduce)
            .await
            .into_iter()
            .peekable();
        let config = collection.take_config(config);
        for input in &INPUTS {
            let list = lists.next_if(|(of, _)| *of == input).map(|(_, list)| list);
            let more = if input.resource == "configmaps" { config.as_ref() } else { None };
            collection.take(input, list, more);
        }
        if let Some(kubelets) = &wants.kubelets {
            collection.ask_kubelets(kubelets).await;
        }
        Ok(collection)
    }

    /// Asks the kubelet of each node for its configuration (AU-19).
    async fn ask_kubelets(&mut self, client: &KubeletClient) {
        let objects = self.manifest.resources.iter().zip(&self.objects);
        let nodes = objects.filter(|(entry, _)| entry.group.is_empty() && entry.resource == "nodes");
        let found: Vec<(String, Option<Kubelet>)> =
            nodes.flat_map(|(_, nodes)| nodes).map(|node| (node.name.clone(), kubelet(node))).collect();
        let asked: Vec<Kubelet> = found.iter().filter_map(|(_, kubelet)| kubelet.clone()).collect();
        let mut answers = client.configurations(&asked).await.into_iter();
        let mut silent = 0_usize;
        for (node, kubelet) in found {
            let answer = kubelet.and_then(|_| answers.next());
            let code = answer.as_ref().and_then(|answer| answer.as_ref().err()?.code());
            let config = match answer {
                None => Err("the node has no address".to_owned()),
                Some(Err(error)) => Err(error.to_string()),
                Some(Ok(answer)) => computed::configz(&answer),
            };
            let outcome = match (&config, code) {
                (Ok(_), _) => Outcome::Listed,
                (Err(_), Some(401 | 403)) => Outcome::Refused,
                (Err(_), _) => Outcome::Failed,
            };
            self.name("nodes/configz", ("", &node), outcome, code);
            match config {
                Ok(config) => self.kubelets.push((node, config)),
                Err(why) => {
                    silent = silent.saturating_add(1);
                    if silent <= NAMED {
                        self.troubles
                            .push(("kubelet-configuration".to_owned(), format!("node {node}: {why}")));
                    }
                }
            }
        }
        if silent > NAMED {
            let more = format!("{} more kubelets did not answer", silent.saturating_sub(NAMED));
            self.troubles.push(("kubelet-configuration".to_owned(), more));
        }
    }

    fn empty(context: String, time: &str) -> Self {
        let manifest = Manifest {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            time: time.to_owned(),
            server_version: String::new(),
            context,
            resources: Vec::new(),
            objects: Vec::new(),
        };
        Self { manifest, version: None, objects: Vec::new(), kubelets: Vec::new(), troubles: Vec::new() }
    }

    /// The number of all objects.
    pub(crate) fn count(&self) -> usize {
        self.objects.iter().map(Vec::len).sum()
    }

    fn take_version(&mut self, answer: Result<String, CallError>) {
        let reduced = answer.map(|text| {
            let document = serde_json::from_str(&text).unwrap_or_default();
            fields::of_version().reduce(document).unwrap_or_default()
        });
        let (outcome, code) = self.outcome("kube-apiserver-version", reduced.as_ref().err());
        self.name("/version", ("", ""), outcome, code);
        if let Ok(version) = reduced {
            let git_version = version.get("gitVersion").and_then(Value::as_str).unwrap_or_default();
            git_version.clone_into(&mut self.manifest.server_version);
            self.version = Some(version.to_string());
        }
    }

    /// Takes the configuration of kubelets, if there is one.
    fn take_config(&mut self, answer: Result<Bytes, CallError>) -> Option<Collected> {
        let input = Input::find("", "configmaps")?;
        let (mut outcome, code) = match &answer {
            Err(error) if error.is_not_found() => (Outcome::Absent, None),
            answer => self.outcome("kubelet-configuration", answer.as_ref().err()),
        };
        let config = match answer.ok().map(|json| reduced(&fields::of_kubelet_config(), input, "v1", &json)) {
            Some(Err(why)) => {
                self.troubles.push(("kubelet-configuration".to_owned(), why));
                outcome = Outcome::Failed;
                None
            }
            config => config.and_then(Result::ok),
        };
        self.name("configmaps", KUBELET_CONFIG, outcome, code);
        config
    }

    fn take(
        &mut self,
        input: &Input,
        list: Option<Result<List<Result<Collected, String>>, CallError>>,
        more: Option<&Collected>,
    ) {
        let asked = list.is_some();
        let (outcome, code) = match &list {
            None => (Outcome::NotAsked, None),
            Some(Ok(List { version: None, .. })) => (Outcome::Absent, None),
            Some(list) => self.outcome(input.resource, list.as_ref().err()),
        };
        let list = list.and_then(Result::ok);
        let (revision, found) = list.map(|list| (list.revision, list.objects)).unwrap_or_default();
        let mut undecodable = 0_u64;
        let mut objects = Vec::with_capacity(found.len());
        for object in found {
            match object {
                Ok(object) => objects.push(object),
                Err(why) => {
                    if undecodable == 0 {
                        self.troubles.push((input.resource.to_owned(), why));
                    }
                    undecodable = undecodable.saturating_add(1);
                }
            }
        }
        if let Some(more) = more {
            objects.retain(|object| object.key() != more.key());
            objects.push(Collected {
                namespace: more.namespace.clone(),
                name: more.name.clone(),
                json: more.json.clone(),
            });
        }
        objects.sort_by(|one, other| one.key().cmp(&other.key()));
        // A server that gives an object twice must not make an archive that cannot be read.
        objects.dedup_by(|one, other| one.key() == other.key());
        self.manifest.resources.push(Entry {
            group: input.group.to_owned(),
            resource: input.resource.to_owned(),
            asked,
            outcome,
            code,
            count: objects.len() as u64,
            undecodable,
            resource_version: revision,
        });
        self.objects.push(objects);
    }

    /// What came of asking, without the words of the server: they may hold anything.
    fn outcome(&mut self, input: &str, error: Option<&CallError>) -> (Outcome, Option<u16>) {
        let Some(error) = error else { return (Outcome::Listed, None) };
        self.troubles.push((input.to_owned(), error.to_string()));
        let code = error.code();
        (if matches!(code, Some(401 | 403)) { Outcome::Refused } else { Outcome::Failed }, code)
    }

    fn name(&mut self, resource: &str, (namespace, name): (&str, &str), outcome: Outcome, code: Option<u16>) {
        self.manifest.objects.push(Named {
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            outcome,
            code,
        });
    }
}

impl Collected {
    fn key(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }
}

/// Where the kubelet of a node listens, by its Node: the internal address, else the external one, else its name in the network. None
/// without an address, or if the name of the node would not be one of a file.
fn kubelet(node: &Collected) -> Option<Kubelet> {
    let object: Value = serde_json::from_str(&node.json).ok().filter(|_| is_dns_subdomain(&node.name))?;
    let status = object.get("status")?;
    let addresses = status.get("addresses")?.as_array()?;
    let of = |kind: &str| {
        let mut of_kind =
            addresses.iter().filter(|address| address.get("type").and_then(Value::as_str) == Some(kind));
        of_kind.find_map(|address| address.get("address")?.as_str().filter(|address| !address.is_empty()))
    };
    let address = ["InternalIP", "ExternalIP", "InternalDNS", "Hostname"].into_iter().find_map(of)?;
    let port = status.pointer("/daemonEndpoints/kubeletEndpoint/Port").and_then(Value::as_u64);
    Some(Kubelet {
        node: node.name.clone(),
        address: address.to_owned(),
        port: port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0).unwrap_or(KUBELET_PORT),
    })
}

async fn kubelet_config(connection: &Connection) -> Result<Bytes, CallError> {
    let (namespace, name) = KUBELET_CONFIG;
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
    snapshot::read_path(connection, &path).await.map(Bytes::from)
}

/// The name of the context, if the address of the server is no part of it: it is none of ours to tell.
fn context(connection: &Connection) -> String {
    let (context, server) = (connection.context(), connection.server());
    let host = server.split_once("://").map_or(&*server, |(_, rest)| rest);
    let host = host.split(['/', ':']).next().unwrap_or_default();
    let names = |host: &str| !host.is_empty() && context.contains(host);
    if names(host) || names(&host.replace('.', "-")) { String::new() } else { context }
}

/// An object as it is kept. An error never quotes a value.
fn reduced(keep: &Keep, input: &Input, version: &str, json: &[u8]) -> Result<Collected, String> {
    let document: Value = serde_json::from_slice(json).map_err(|_| "an object is no JSON".to_owned())?;
    let text = |field: &str| {
        let field = document.get("metadata").and_then(|metadata| metadata.get(field));
        field.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let (namespace, name) = (text("namespace"), text("name"));
    let whose = |why: &dyn std::fmt::Display| format!("{} {namespace}/{name}: {why}", input.kind);
    let mut document = keep.reduce(document).map_err(|why| whose(&why))?;
    let fields = document.as_object_mut().ok_or_else(|| whose(&"is no object"))?;
    fields.insert("apiVersion".to_owned(), json!(input.api_version(version)));
    fields.insert("kind".to_owned(), json!(input.kind));
    let json = document.to_string();
    if let Some(kind) = input.item_kind() {
        let wrong = |error: serde_json::Error| {
            whose(&format_args!("a field that is read is of another type, at column {}", error.column()))
        };
        let item = Item::parse(kind, &json).map_err(wrong)?;
        item.check_key().map_err(|(field, why)| whose(&format_args!("{field} {why}")))?;
    } else if name.is_empty() {
        return Err(whose(&"metadata.name is missing"));
    }
    Ok(Collected { namespace, name, json })
}
