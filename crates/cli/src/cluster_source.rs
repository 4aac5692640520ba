//! Where commands that look at a cluster read its objects: files, etcd, or the cluster itself (AU-9). Nothing is written (AU-10).

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use portcullis_client::feed::resource_of;
use portcullis_client::snapshot::{self, Listed};
use portcullis_client::{CallError, Connection, names};
use portcullis_policy::audit::state::{ItemKind, Listing};
use portcullis_policy::audit::{Incomplete, Why};
use portcullis_policy::objects::{Kind, Object};
use portcullis_server::registry::content::Unreadable;
use portcullis_server::state;
use portcullis_server::state::manifest::Manifest;

use crate::engine_flags::{runtime, tell, threads};
use crate::failure::Failure;
use crate::question::DEFAULT_NAMESPACE;
use crate::resource_type::ResourceType;
use crate::store_flags::EtcdSourceFlags;

/// What can be read in place of a cluster.
pub(crate) const OR_FILES: &str = "; or read files with --state";

/// The cluster that is read where neither files nor an etcd are named.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterFlags {
    /// The kubeconfig of the cluster, whose objects are read without --state [default: as kubectl]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl ClusterFlags {
    /// Checks that the cluster is not named beside another source.
    ///
    /// # Errors
    /// It is.
    pub(crate) fn check(&self, has_state: bool, has_etcd: bool) -> Result<(), Failure> {
        let own = [("--kubeconfig", self.kubeconfig.is_some()), ("--context", self.context.is_some())];
        let other = [("--state", has_state), ("--etcd-servers", has_etcd)];
        let named = |flags: [(&'static str, bool); 2]| flags.into_iter().find(|(_, is_given)| *is_given);
        match named(own).zip(named(other)) {
            Some(((own, _), (other, _))) => {
                Err(Failure::input(format_args!("{own} and {other} name two states: leave one of them out")))
            }
            None => Ok(()),
        }
    }

    /// Whether the flags name a cluster.
    pub(crate) fn is_given(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    /// Connects to the cluster. `instead` says what else can be done without one.
    ///
    /// # Errors
    /// There is no kubeconfig, or it is invalid.
    pub(crate) async fn connect(&self, instead: &str) -> Result<Connection, Failure> {
        Connection::infer(self.kubeconfig.as_deref(), self.context.as_deref())
            .await
            .map_err(|error| Failure::input(format_args!("{error}{instead}")))
    }
}

/// Where objects are read: from these files; without files, from the etcd; without either, from the cluster.
#[derive(Clone, Copy)]
pub(crate) struct ClusterSource<'f> {
    pub(crate) state: &'f [PathBuf],
    pub(crate) etcd: &'f EtcdSourceFlags,
    pub(crate) cluster: &'f ClusterFlags,
}

/// What was read beside the objects.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// The revision of all objects, if they are those of etcd.
    pub(crate) revision: Option<u64>,
    /// Whether a kind without objects may only not have been given (AU-23).
    pub(crate) is_of_files: bool,
    /// The kinds of which all objects were given, although from files (AU-23).
    pub(crate) listed: BTreeSet<Kind>,
    /// What could not be read (AU-21). The ids of rules are those of the caller.
    pub(crate) incomplete: Vec<Incomplete>,
}

/// Receives objects, or returns why one cannot be used.
type Take<'t> = dyn FnMut(Object<'_>) -> Result<(), String> + Send + 't;

impl ClusterSource<'_> {
    /// Passes objects to `take`: of files and of etcd all that decisions use, of a cluster those of these kinds. `rules` are the
    /// rules that depend on them (AU-21).
    ///
    /// # Errors
    /// Two sources are named; a file is invalid, as in [`state::load`]; or etcd or the cluster cannot be reached.
    pub(crate) fn read(
        &self,
        kinds: &BTreeSet<Kind>,
        rules: &[&'static str],
        take: &mut Take<'_>,
    ) -> Result<Reading, Failure> {
        if self.etcd.etcd.is_given() && !self.state.is_empty() {
            return Err(Failure::input("--state and --etcd-servers name two states: leave one of them out"));
        }
        self.cluster.check(!self.state.is_empty(), self.etcd.etcd.is_given())?;
        if let Some(reading) = self.read_etcd(rules, take)? {
            return Ok(reading);
        }
        if self.state.is_empty() {
            return self.read_cluster(kinds, rules, take);
        }
        let loaded = state::load(self.state, threads(), take).map_err(Failure::input)?;
        Ok(of_archives(&loaded.beside.manifests, kinds, rules))
    }

    /// Reads the etcd that the flags name, if they name one. What cannot be used is told at once.
    fn read_etcd(&self, rules: &[&'static str], take: &mut Take<'_>) -> Result<Option<Reading>, Failure> {
        let decided = runtime()?.block_on(async {
            let Some(content) = self.etcd.content().await? else { return Ok::<_, Failure>(None) };
            Ok(Some(content.decided(take).await?))
        })?;
        let Some(decided) = decided else { return Ok(None) };
        tell(&decided, self.etcd, false);
        let unusable = |unreadable: &Unreadable| Incomplete {
            input: unreadable.key.clone(),
            why: Why::Undecodable,
            rules: rules.to_vec(),
            detail: format!("the value of {} {}", unreadable.key, unreadable.why),
        };
        let incomplete = decided.unusable.iter().map(unusable).collect();
        Ok(Some(Reading { revision: Some(decided.revision), incomplete, ..Reading::default() }))
    }

    /// Whether neither files nor an etcd are named.
    pub(crate) fn is_cluster(&self) -> bool {
        self.state.is_empty() && !self.etcd.etcd.is_given()
    }

    /// The namespace of a question that names none: that of the context if the cluster is read. A kubeconfig that is invalid is
    /// refused by [`Self::read`].
    pub(crate) fn namespace(&self) -> String {
        let of_context = match self.is_cluster() {
            true => {
                Connection::namespace_of(self.cluster.kubeconfig.as_deref(), self.cluster.context.as_deref())
            }
            false => Ok(None),
        };
        of_context.ok().flatten().unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())
    }

    /// Looks in the discovery documents of the cluster for a type that is not one of the common ones, as kubectl does. Returns none
    /// for files and etcd, which have no such documents, and if the cluster does not have the type or does not answer. The type is
    /// then used as it is written, with a warning (AU-96).
    pub(crate) fn find_type(&self, written: &ResourceType) -> Option<ResourceType> {
        if !self.is_cluster() {
            return None;
        }
        let served = runtime().ok()?.block_on(async {
            let connection = self.cluster.connect(OR_FILES).await.ok()?;
            names::served(&connection).await.ok()
        })?;
        let ResourceType { resource, group, .. } = written;
        let is_meant = |served: &names::Served| {
            served.is_called(resource) && (group.is_empty() || group.eq_ignore_ascii_case(&served.group))
        };
        let names::Served { plural, group, is_namespaced, .. } = served.into_iter().find(is_meant)?;
        Some(ResourceType { resource: plural, group, namespaced: Some(is_namespaced) })
    }

    fn read_cluster(
        &self,
        kinds: &BTreeSet<Kind>,
        rules: &[&'static str],
        take: &mut Take<'_>,
    ) -> Result<Reading, Failure> {
        if kinds.is_empty() {
            return Ok(Reading::default());
        }
        let lists = runtime()?.block_on(async {
            let connection = self.cluster.connect(OR_FILES).await?;
            Ok::<_, Failure>(snapshot::read(&connection, kinds.iter().copied()).await)
        })?;
        let mut incomplete = Vec::new();
        for Listed { kind, objects } in lists {
            let mut lacks = |why, detail| {
                let input = resource_of(kind).1.to_owned();
                incomplete.push(Incomplete { input, why, rules: rules.to_vec(), detail });
            };
            match objects {
                Ok(objects) => {
                    let faults: Vec<String> =
                        objects.iter().filter_map(|object| use_object(kind, object, take).err()).collect();
                    if let Some(first) = faults.first() {
                        lacks(
                            Why::Undecodable,
                            format!("{} cannot be used; the first: {first}", faults.len()),
                        );
                    }
                }
                Err(error @ CallError::Unreachable { .. }) => return Err(Failure::unreachable(error)),
                Err(error) => {
                    let is_refused = matches!(error.code(), Some(401 | 403));
                    lacks(if is_refused { Why::Refused } else { Why::Failed }, error.to_string());
                }
            }
        }
        Ok(Reading { incomplete, ..Reading::default() })
    }
}

/// What the manifests of archives say of these kinds.
fn of_archives(manifests: &[Manifest], kinds: &BTreeSet<Kind>, rules: &[&'static str]) -> Reading {
    let mut reading = Reading { is_of_files: true, ..Reading::default() };
    for (kind, listing) in manifests.iter().flat_map(Manifest::listings) {
        let ItemKind::Decided(kind) = kind else { continue };
        if !kinds.contains(&kind) {
            continue;
        }
        reading.listed.insert(kind);
        if let Listing::Lacking(why, detail) = listing {
            let input = resource_of(kind).1.to_owned();
            reading.incomplete.push(Incomplete { input, why, rules: rules.to_vec(), detail });
        }
    }
    reading
}

fn use_object(kind: Kind, json: &[u8], take: &mut Take<'_>) -> Result<(), String> {
    let text = std::str::from_utf8(json).map_err(|error| format!("a {kind} is not UTF-8: {error}"))?;
    let object = Object::parse(kind, text).map_err(|error| format!("a {kind} cannot be read: {error}"))?;
    let (namespace, name) = object.key();
    let whose = format!("{kind} {namespace}/{name}");
    take(object).map_err(|why| format!("{whose}: {why}"))
}

/// A kind of which the files have no object. Whether the cluster has some cannot be told (AU-23).
pub(crate) fn not_given(kind: Kind, rule: &'static str) -> Incomplete {
    Incomplete {
        input: resource_of(kind).1.to_owned(),
        why: Why::NotGiven,
        rules: vec![rule],
        detail: format!("the state has no {kind}; if the cluster has some, give them with --state"),
    }
}
