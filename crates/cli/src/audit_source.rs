//! Where an audit reads the state of a cluster: files and archives, or the cluster itself (AU-9). Nothing is written (AU-10).

use std::path::{Path, PathBuf};

use clap::Args;
use jiff::Timestamp;
use portcullis_client::Connection;
use portcullis_client::kubelets::KubeletClient;
use portcullis_policy::audit::inputs::Input;
use portcullis_policy::audit::state::{Item, State, StateBuilder};
use portcullis_policy::audit::{Incomplete, Why};
use portcullis_policy::engine::EngineConfig;
use portcullis_server::state::manifest::Manifest;
use portcullis_server::state::{self, ForAudit, KubeletFile, KubeletForm};

use crate::cluster_source::{ClusterFlags, OR_FILES};
use crate::collection::{Collection, Wants};
use crate::engine_flags::{runtime, threads};
use crate::failure::Failure;
use crate::terminal::plain;

/// Where an audit reads: from these files, directories and archives; without any, from the cluster.
#[derive(Clone, Copy, Debug)]
pub struct AuditSource<'f> {
    /// The files, directories and archives.
    pub state: &'f [PathBuf],
    /// The cluster.
    pub cluster: &'f ClusterFlags,
    /// Whether Secrets and ConfigMaps of the cluster are listed, without their values (AU-18).
    pub secret_metadata: bool,
    /// Whether kubelets are asked themselves (AU-19).
    pub kubelets: &'f KubeletFlags,
}

/// Whether kubelets are asked themselves, and how.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Cluster")]
pub struct KubeletFlags {
    /// Ask each kubelet for its configuration (/configz), which needs the right to get nodes/configz. A kubelet gets the credential
    /// only if its certificate verifies; but then every kubelet sees the token of the kubeconfig
    #[arg(long)]
    kubelets: bool,

    /// The CA certificates of kubelets, in PEM [default: those of the API server]
    #[arg(long, value_name = "FILE", requires = "kubelets")]
    kubelet_certificate_authority: Option<PathBuf>,
}

impl KubeletFlags {
    /// A client of kubelets; none if they are not asked.
    ///
    /// # Errors
    /// The certificates cannot be read, or are invalid.
    fn client(&self, connection: &Connection) -> Result<Option<KubeletClient>, Failure> {
        if !self.kubelets {
            return Ok(None);
        }
        let path = self.kubelet_certificate_authority.as_deref();
        let failed = |path: &Path, error: &dyn std::fmt::Display| {
            Failure::input(format_args!("--kubelet-certificate-authority {}: {error}", path.display()))
        };
        let authority =
            path.map(|path| std::fs::read(path).map_err(|error| failed(path, &error))).transpose()?;
        let client = KubeletClient::new(connection, authority.as_deref());
        client.map(Some).map_err(|error| match path {
            Some(path) => failed(path, &error),
            None => Failure::input(error),
        })
    }
}

/// What was read.
#[derive(Debug)]
pub struct Reading {
    /// The state. It knows which kinds were listed, and of which objects are missing ([`State::lack`]).
    pub state: State,
    /// What is missing beside the kinds that an audit reads (AU-21). The ids of the rules are those of the caller.
    pub incomplete: Vec<Incomplete>,
    /// The configuration of kubelets as it is in files (AU-14).
    pub kubelets: Vec<KubeletFile>,
}

impl AuditSource<'_> {
    /// Reads everything. `config` decides direct reach.
    ///
    /// # Errors
    /// Both files and a cluster are named; a file is invalid, as in [`state::load`]; or the cluster cannot be reached.
    pub fn read(&self, config: EngineConfig) -> Result<Reading, Failure> {
        let mut builder = StateBuilder::new(config).map_err(Failure::input)?;
        self.cluster.check(!self.state.is_empty(), false)?;
        if self.secret_metadata && !self.state.is_empty() {
            return Err(Failure::input("--secret-metadata is for clusters: files have what they have"));
        }
        if self.kubelets.kubelets && !self.state.is_empty() {
            return Err(Failure::input("--kubelets is for clusters: files have what they have"));
        }
        let (incomplete, kubelets) = match self.state.is_empty() {
            true => read_cluster(&mut builder, self)?,
            false => read_files(&mut builder, self.state)?,
        };
        Ok(Reading { state: builder.finish(), incomplete, kubelets })
    }
}

/// Reads files, directories and archives.
///
/// # Errors
/// A file is invalid, as in [`state::load`].
pub(crate) fn load(config: EngineConfig, paths: &[PathBuf]) -> Result<State, Failure> {
    let mut builder = StateBuilder::new(config).map_err(Failure::input)?;
    read_files(&mut builder, paths)?;
    Ok(builder.finish())
}

/// Tells what the state lacks, on standard error.
pub(crate) fn tell_missing(incomplete: &[Incomplete]) {
    for Incomplete { input, why, detail, .. } in incomplete {
        let why = if *why == Why::NotGiven { "is not in the state" } else { why.as_str() };
        eprintln!("note: {} {why}: {}", plain(input), plain(detail));
    }
}

fn read_files(
    builder: &mut StateBuilder,
    paths: &[PathBuf],
) -> Result<(Vec<Incomplete>, Vec<KubeletFile>), Failure> {
    let mut sink = |item: Item<'_>| builder.take(item).map_err(|error| error.to_string());
    let loaded = state::load_for::<ForAudit>(paths, threads(), &mut sink).map_err(Failure::input)?;
    let beside = loaded.beside;
    beside.versions.iter().for_each(|version| builder.version(version));
    let incomplete = beside.manifests.iter().flat_map(|manifest| note(builder, manifest)).collect();
    Ok((incomplete, beside.kubelets))
}

fn read_cluster(
    builder: &mut StateBuilder,
    source: &AuditSource<'_>,
) -> Result<(Vec<Incomplete>, Vec<KubeletFile>), Failure> {
    let collection = source.cluster.collect(source.secret_metadata, source.kubelets, OR_FILES)?;
    builder.version(&collection.manifest.server_version);
    for (entry, objects) in collection.manifest.resources.iter().zip(&collection.objects) {
        let Some(kind) = Input::find(&entry.group, &entry.resource).and_then(Input::item_kind) else {
            continue;
        };
        for object in objects {
            let undecodable = |error: &dyn std::fmt::Display| {
                Failure::unreachable(format_args!("{}: {}", entry.resource, plain(&error.to_string())))
            };
            let item = Item::parse(kind, &object.json).map_err(|error| undecodable(&error))?;
            builder.take(item).map_err(|error| undecodable(&error))?;
        }
    }
    let file = |(node, text): &(String, String)| KubeletFile {
        node: node.clone(),
        form: KubeletForm::Configuration,
        path: PathBuf::from(format!("kubelets/{node}.json")),
        text: text.clone(),
    };
    Ok((note(builder, &collection.manifest), collection.kubelets.iter().map(file).collect()))
}

/// Notes what was listed, and returns what is missing beside.
fn note(builder: &mut StateBuilder, manifest: &Manifest) -> Vec<Incomplete> {
    manifest.listings().for_each(|(kind, listing)| builder.list(kind, listing));
    manifest.incomplete().collect()
}

impl ClusterFlags {
    /// Reads the cluster, and tells what the right to list secrets is worth, and what the cluster did not give.
    ///
    /// # Errors
    /// There is no kubeconfig, in which case `instead` says what else can be done; or the cluster cannot be reached.
    pub(crate) fn collect(
        &self,
        secret_metadata: bool,
        kubelets: &KubeletFlags,
        instead: &str,
    ) -> Result<Collection, Failure> {
        if secret_metadata {
            eprintln!("{WORTH}");
        }
        let time = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let collection = runtime()?.block_on(async {
            let connection = self.connect(instead).await?;
            let wants = Wants { secret_metadata, kubelets: kubelets.client(&connection)? };
            if wants.kubelets.is_some() && connection.sends_token().map_err(Failure::input)? {
                eprintln!("{SEEN}");
            }
            let read = Collection::read(&connection, &wants, &time).await;
            read.map_err(Failure::unreachable)
        })?;
        for (input, why) in &collection.troubles {
            eprintln!("warning: {input}: {}", plain(why));
        }
        Ok(collection)
    }
}

/// AU-18
const WORTH: &str = "warning: --secret-metadata needs the right to list secrets and config maps, and that right gives their \
    values too: RBAC cannot grant their metadata alone. Whoever gets this credential can read every secret; nothing else in the \
    audit needs it";

/// AU-19, E20
const SEEN: &str = "warning: --kubelets shows the token of this credential to every kubelet, and so to whoever has stolen a machine: \
    use one that has no other rights, or a client certificate";
