//! `portcullis collect`: writes what an audit reads of a cluster into an archive (AU-7).

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::audit_source::KubeletFlags;
use crate::cluster_source::ClusterFlags;
use crate::collection;
use crate::failure::Failure;

/// Write what an audit reads of a cluster into an archive, which is a state like files
///
/// The archive is a directory, or a compressed tar file if its name ends in .tar.gz or .tgz. It has the fields that the audit reads,
/// and no others: no values of Secrets and ConfigMaps, no values of environment variables, no command lines but that of a
/// kube-apiserver, no certificates, and no addresses but those of nodes. Of the ConfigMap kube-system/kubelet-config it has the
/// configuration of kubelets. docs/collect.md names all of it.
///
/// The cluster is only read: lists in pages, four at a time. deploy/audit has the least role for it. What the cluster refuses is
/// named in manifest.json, and commands that read the archive say so.
///
/// Two archives of a cluster that did not change are equal but for the time in manifest.json.
///
/// Exit codes: 0 everything was read; 1 a part of the cluster was refused or could not be read; 2 bad flags, or there is something at
/// the path already; 3 the cluster cannot be reached, or the archive cannot be written.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CollectArgs {
    /// The archive to write: a directory that is missing or empty, or a file whose name ends in .tar.gz or .tgz
    #[arg(short, long, value_name = "DIR|FILE.tar.gz")]
    output: PathBuf,

    /// List Secrets and ConfigMaps too, as their metadata alone. The right to list them gives their values too: do not give it to an
    /// account for audits
    #[arg(long)]
    secret_metadata: bool,

    /// Exit with 0 although a part of the cluster was refused or could not be read
    #[arg(long)]
    allow_incomplete: bool,

    #[command(flatten)]
    cluster: ClusterFlags,

    #[command(flatten)]
    kubelets: KubeletFlags,
}

const EXAMPLES: &str = "\
Examples:
  portcullis collect -o cluster.tar.gz
  portcullis collect --context production -o production/
  portcullis collect --kubelets -o cluster.tar.gz
  portcullis reach --state cluster.tar.gz";

/// Runs the command.
///
/// # Errors
/// There is something at the path already, the cluster cannot be reached, or the archive cannot be written.
pub fn run(args: &CollectArgs) -> Result<ExitCode, Failure> {
    collection::check(&args.output)?;
    let collection = args.cluster.collect(args.secret_metadata, &args.kubelets, "")?;
    collection::write(&collection, &args.output)?;
    writeln!(std::io::stdout().lock(), "{} objects are in {}", collection.count(), args.output.display())?;
    let is_partial = collection.manifest.is_incomplete();
    Ok(ExitCode::from(u8::from(is_partial && !args.allow_incomplete)))
}
