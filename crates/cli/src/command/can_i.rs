//! `portcullis can-i`: one question about one user, answered over a snapshot of a cluster.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use portcullis_policy::engine::EngineConfig;
use portcullis_policy::{Attributes, ResourceRequest, User};

use crate::engine_flags::{EngineFlags, load};
use crate::failure::Failure;
use crate::resource_type::ResourceType;

/// Ask whether a user may do something, over a snapshot of a cluster
///
/// The question is written as for `kubectl auth can-i`: VERB TYPE, VERB TYPE/NAME, VERB TYPE NAME, or VERB /PATH.
/// TYPE may carry its group (deployments.apps). Groups are never added to the user implicitly.
///
/// Exit codes: 0 yes; 1 no; 2 bad flags or input.
#[derive(Args, Debug)]
pub struct CanIArgs {
    /// get, list, watch, create, update, patch, delete, ...; for a path the HTTP method in lower case
    verb: String,

    /// TYPE[.GROUP][/NAME], or a path that begins with /
    #[arg(value_name = "TYPE[/NAME] | /PATH")]
    what: String,

    /// The name, when it is not given with the type
    name: Option<String>,

    /// The user who would ask
    #[arg(long = "as", value_name = "USER")]
    user: String,

    /// A group of the user. Repeatable
    #[arg(long = "as-group", value_name = "GROUP")]
    groups: Vec<String>,

    /// The unique id of the user
    #[arg(long = "as-uid", value_name = "UID", default_value = "", hide_default_value = true)]
    uid: String,

    /// The namespace
    #[arg(short, long, default_value = "default")]
    namespace: String,

    /// In all namespaces: a list of everything, for instance
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,

    /// The subresource: status, log, token, ...
    #[arg(long, default_value = "", hide_default_value = true)]
    subresource: String,

    /// Say why: by which path or rule, or what came nearest and what would be needed
    #[arg(long)]
    explain: bool,

    /// Print nothing; the exit code is the answer
    #[arg(short, long)]
    quiet: bool,

    /// Have the default RBAC policy of Kubernetes beside the objects; objects of the same name win
    #[arg(long)]
    default_policy: bool,

    #[command(flatten)]
    engine: EngineFlags,
}

/// Runs the command.
///
/// # Errors
/// Flags or objects that cannot be used, or a question that makes no sense.
pub fn run(args: &CanIArgs) -> Result<ExitCode, Failure> {
    let user = User { uid: args.uid.clone(), ..User::new(&*args.user, args.groups.iter().cloned()) };
    let target = Target::of(args)?;
    let config = EngineConfig { default_policy: args.default_policy, ..args.engine.config()? };
    let (engine, _) = load(config, &args.engine.state)?;
    let attributes = target.attributes(args, &user);
    let outcome = engine.chain().decide(&attributes);
    let allowed = outcome.is_allow();
    if !args.quiet {
        let mut out = std::io::stdout().lock();
        let reason = outcome.render(&attributes);
        let reason = if allowed || reason.is_empty() {
            String::new()
        } else {
            format!(" - {}", reason.replace('\n', "; "))
        };
        writeln!(out, "{}{reason}", if allowed { "yes" } else { "no" })?;
        if args.explain {
            writeln!(out, "\n{}", engine.chain().explain(&attributes))?;
        }
    }
    Ok(ExitCode::from(u8::from(!allowed)))
}

/// What is asked about.
enum Target {
    Path(String),
    Resource { kind: ResourceType, name: String, namespace: String },
}

impl Target {
    fn of(args: &CanIArgs) -> Result<Self, Failure> {
        if args.what.starts_with('/') {
            if args.name.is_some() || !args.subresource.is_empty() {
                return Err(Failure::input("a path has neither a name nor a subresource"));
            }
            return Ok(Self::Path(args.what.clone()));
        }
        let (word, name) = match (args.what.split_once('/'), &args.name) {
            (Some((_, in_type)), Some(beside)) => {
                return Err(Failure::input(format_args!(
                    "two names, {in_type:?} and {beside:?}: give one (for a subresource use --subresource)"
                )));
            }
            (Some((word, name)), None) => (word, name.to_owned()),
            (None, name) => (&*args.what, name.clone().unwrap_or_default()),
        };
        if word.is_empty() {
            return Err(Failure::input(
                "the resource type is empty: write VERB TYPE, for instance: get pods",
            ));
        }
        let kind = ResourceType::of(word);
        if kind.namespaced.is_none() && !args.quiet {
            eprintln!(
                "warning: resource type {word:?} is not known here; it is taken as {:?} of API group {:?}",
                kind.resource, kind.group
            );
        }
        let namespace = if args.all_namespaces || kind.namespaced == Some(false) {
            String::new()
        } else {
            args.namespace.clone()
        };
        Ok(Self::Resource { kind, name, namespace })
    }

    fn attributes<'a>(&'a self, args: &'a CanIArgs, user: &'a User) -> Attributes<'a> {
        match self {
            Self::Path(path) => Attributes { user, verb: &args.verb, path, resource: None },
            Self::Resource { kind, name, namespace } => Attributes {
                user,
                verb: &args.verb,
                path: "",
                resource: Some(ResourceRequest {
                    namespace,
                    group: &kind.group,
                    version: "*",
                    resource: &kind.resource,
                    subresource: &args.subresource,
                    name,
                    ..ResourceRequest::default()
                }),
            },
        }
    }
}
