//! `portcullis bootstrap control-plane`: client certificates for machines that start before any service account exists
//! (NB-10 to NB-25).

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use clap::{Args, Subcommand};
use portcullis_client::Connection;
use portcullis_client::connect::Credential;
use portcullis_pki::{bootstrap, pem};
use portcullis_server::registry::bootstrap_authorities::{BUNDLE_KEY, Inventory, LIST_NAME, LIST_NAMESPACE};
use serde_json::{Value, json};

use super::cluster::{self, config_maps, ensure_binding, ensure_namespace, text};
use super::common::{ListArgs, PlaceFlags, ServerFlags, println_done, refused};
use super::confirm::{WaitFlags, confirm};
use super::inventory::{Row, print, time};
use super::output::{Endpoint, Holder, OutputFlags, Pending, kubeconfig};
use crate::bootstrap_flags::Place;
use crate::failure::Failure;

/// The name of this kind in lists.
const KIND: &str = "control-plane";
/// The number of attempts of a write after conflicts.
const ATTEMPTS: usize = 10;

/// A client certificate, valid for ten years, whose signer signs nothing else and whose signing key is discarded
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Create(CreateArgs),
    /// List the authorities of such credentials: those in the ConfigMaps, and those that were revoked
    List(ListArgs),
    Revoke(RevokeArgs),
}

/// Create a credential: its authority is added to the ConfigMap, the credential to a kubeconfig
///
/// The kubeconfig is written once the API server accepts the credential. If it does not within --timeout, the authority is
/// removed again.
///
/// The signing key is not stored. With --offline no server is contacted: what a cluster needs to trust the credential
/// is written to a manifest for kubectl apply.
#[derive(Args, Debug)]
pub(crate) struct CreateArgs {
    #[command(flatten)]
    output: OutputFlags,

    #[command(flatten)]
    server: ServerFlags,

    #[command(flatten)]
    places: PlaceFlags,

    #[command(flatten)]
    wait: WaitFlags,

    /// Do not contact an API server
    #[arg(long, requires = "manifest", requires = "server", requires = "certificate_authority")]
    offline: bool,

    /// With --offline: the file of the manifest, with the ConfigMap and what it needs
    #[arg(long, value_name = "FILE", requires = "offline")]
    manifest: Option<PathBuf>,
}

/// Revoke credentials: all of them, by deleting the ConfigMaps, or those of one authority
#[derive(Args, Debug)]
pub(crate) struct RevokeArgs {
    #[command(flatten)]
    server: ServerFlags,

    #[command(flatten)]
    places: PlaceFlags,

    /// The SHA-256 digest of the authority's certificate, as `list` prints it; all authorities if not given
    #[arg(long, value_name = "DIGEST")]
    sha256: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// See [`super::run`].
pub(super) async fn run(verb: &Verb) -> Result<ExitCode, Failure> {
    match verb {
        Verb::Create(args) if args.offline => create_offline(args),
        Verb::Create(args) => create(args).await,
        Verb::List(args) => {
            let connection = args.server.connect().await?;
            print(&rows(&connection, &args.places).await?, args.form)
        }
        Verb::Revoke(args) => revoke(args).await,
    }
}

/// Creates a new credential, and its kubeconfig.
fn sign(places: &PlaceFlags, endpoint: &Endpoint) -> Result<(bootstrap::Credential, String), Failure> {
    let credential = bootstrap::sign_once(&places.user(), &[places.group()], SystemTime::now())
        .map_err(|error| Failure::unreachable(format_args!("cannot make a certificate: {error}")))?;
    let holder = Holder::Certificate { certificate: &credential.certificate_pem, key: &credential.key_pem };
    let text = kubeconfig(endpoint, &holder);
    Ok((credential, text))
}

/// Returns the ConfigMap for new authorities.
fn home(places: &PlaceFlags) -> Result<&Place, Failure> {
    places.config_maps.first().ok_or_else(|| Failure::input("--ca-configmap names no ConfigMap"))
}

fn config_map(place: &Place, bundle: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": place.name, "namespace": place.namespace}, "data": {BUNDLE_KEY: bundle}})
}

fn create_offline(args: &CreateArgs) -> Result<ExitCode, Failure> {
    let place = home(&args.places)?;
    let manifest = args.manifest.as_deref().ok_or_else(|| Failure::input("--offline needs --manifest"))?;
    if args.output.output.as_deref() == Some(manifest) {
        return Err(Failure::input("--output and --manifest name the same file"));
    }
    let endpoint = args.output.server("", "")?;
    let manifest = Pending::file(manifest, args.output.overwrite)?;
    let output = args.output.begin()?;
    let (credential, kubeconfig) = sign(&args.places, &endpoint)?;
    let authority = credential.authority_pem;
    let account = &args.places.account;
    let mut items = vec![cluster::namespace(&place.namespace)];
    if account.namespace != place.namespace {
        items.push(cluster::namespace(&account.namespace));
    }
    items.extend([cluster::account_binding(account), config_map(place, &authority)]);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let list = serde_json::to_string_pretty(&list).map_err(std::io::Error::from)?;
    manifest.finish(&(list + "\n"))?;
    output.finish(&kubeconfig)?;
    eprintln!(
        "machines with this kubeconfig may join as {} once the manifest is applied; the authority has SHA-256 digest {}",
        args.places.user(),
        digest_of(&authority)
    );
    Ok(ExitCode::SUCCESS)
}

async fn create(args: &CreateArgs) -> Result<ExitCode, Failure> {
    let connection = args.server.connect().await?;
    let place = home(&args.places)?;
    let endpoint = args.output.server(&connection.server(), &connection.certificate_authority())?;
    let output = args.output.begin()?;
    ensure_namespace(&connection, &place.namespace).await?;
    ensure_binding(&connection, &cluster::account_binding(&args.places.account)).await?;
    let (credential, kubeconfig) = sign(&args.places, &endpoint)?;
    let (user, digest) = (args.places.user(), digest_of(&credential.authority_pem));
    publish(&connection, place, &credential.authority_pem).await?;
    let holder = Credential::Certificate {
        certificate: credential.certificate_pem.into_bytes(),
        key: credential.key_pem.into_bytes(),
    };
    if let Err(failure) = confirm(&connection, holder, &user, args.wait.timeout).await {
        let undone = match withdraw(&connection, &args.places, Some(&digest)).await {
            Ok(_) => "its authority was removed again".to_owned(),
            Err(error) => {
                format!(
                    "remove its authority with `control-plane revoke --sha256 {digest}`, which failed here: {error}"
                )
            }
        };
        return Err(Failure::unreachable(format_args!(
            "{failure}; no kubeconfig is written, and {undone}. Check that the server trusts the authorities in the \
             ConfigMap {place}, or wait longer with --timeout"
        )));
    }
    output.finish(&kubeconfig)?;
    eprintln!(
        "machines with this kubeconfig may now join as {user}; the authority has SHA-256 digest {digest}"
    );
    Ok(ExitCode::SUCCESS)
}

/// Returns the digest of a certificate in PEM.
fn digest_of(authority: &str) -> String {
    let der = pem::first(authority.as_bytes()).map(|block| block.der).unwrap_or_default();
    super::inventory::sha256(&der)
}

/// Adds an authority to the ConfigMap (NB-13).
async fn publish(connection: &Connection, place: &Place, authority: &str) -> Result<(), Failure> {
    let resource = config_maps(&place.namespace);
    let failed = || refused(format!("write the ConfigMap {place}"));
    for _ in 0..ATTEMPTS {
        let found = connection.find::<Value>(&resource, &place.name).await.map_err(failed())?;
        let answer = match found {
            None => connection.create::<Value>(&resource, &config_map(place, authority)).await,
            Some(found) => {
                let bundle = text(&found, &["data", BUNDLE_KEY]).trim_end();
                let bundle =
                    if bundle.is_empty() { authority.to_owned() } else { format!("{bundle}\n{authority}") };
                // With the resourceVersion that was read, so that no concurrent change is lost.
                let patch = json!({"metadata": {"resourceVersion": text(&found, &["metadata", "resourceVersion"])},
                    "data": {BUNDLE_KEY: bundle}});
                connection.merge::<Value>(&resource.object(&place.name), &patch).await
            }
        };
        match answer {
            Err(error) if error.is_conflict() || error.is_already_exists() || error.is_not_found() => {}
            answer => return answer.map(drop).map_err(failed()),
        }
    }
    Err(Failure::unreachable(format_args!("too many conflicts while writing the ConfigMap {place}")))
}

/// Returns the existing ConfigMaps, with their names.
async fn found(connection: &Connection, places: &PlaceFlags) -> Result<Vec<(Place, Value)>, Failure> {
    let mut all = Vec::new();
    for place in &places.config_maps {
        let found = connection.find(&config_maps(&place.namespace), &place.name).await;
        let found = found.map_err(refused(format!("read the ConfigMap {place}")))?;
        all.extend(found.map(|found| (place.clone(), found)));
    }
    Ok(all)
}

/// Returns the list rows of the authorities.
///
/// # Errors
/// See [`super::run`].
pub(super) async fn rows(connection: &Connection, places: &PlaceFlags) -> Result<Vec<Row>, Failure> {
    let all: Vec<(String, Value)> =
        found(connection, places).await?.into_iter().map(|(place, map)| (place.to_string(), map)).collect();
    let list = connection.find::<Value>(&config_maps(LIST_NAMESPACE), LIST_NAME).await;
    let list = list.map_err(refused("read the list of revoked authorities"))?;
    let maps = all.iter().filter_map(|(place, map)| Some((place.as_str(), map.as_object()?)));
    let inventory = Inventory::read(maps, list.as_ref().and_then(Value::as_object));
    for (place, fault) in &inventory.faults {
        eprintln!("warning: {place}: {fault}");
    }
    let rows = inventory.authorities.into_iter().map(|listed| Row {
        kind: KIND,
        subject: listed.common_name,
        sha256: listed.sha256,
        not_after: listed.not_after.map_or_else(|| "unknown".to_owned(), time),
        revoked: listed.is_revoked,
        note: listed.held_by.join(","),
    });
    Ok(rows.collect())
}

async fn revoke(args: &RevokeArgs) -> Result<ExitCode, Failure> {
    let connection = args.server.connect().await?;
    let digest = args.sha256.as_deref().map(digest).transpose()?;
    if !withdraw(&connection, &args.places, digest.as_deref()).await? {
        eprintln!("there is nothing to revoke: no ConfigMap contains such an authority");
        return Ok(ExitCode::from(1));
    }
    println_done("revoked: control-plane credentials of the removed authorities are refused")?;
    Ok(ExitCode::SUCCESS)
}

/// Removes the authority with this digest, or all, from the ConfigMaps. Returns whether there was one.
async fn withdraw(
    connection: &Connection,
    places: &PlaceFlags,
    digest: Option<&str>,
) -> Result<bool, Failure> {
    let mut is_done = false;
    for (place, map) in found(connection, places).await? {
        let failed = || refused(format!("remove authorities from the ConfigMap {place}"));
        let resource = config_maps(&place.namespace);
        let Some(digest) = digest else {
            is_done |= cluster::delete(connection, &resource, &map).await.map_err(failed())?;
            continue;
        };
        let bundle = text(&map, &["data", BUNDLE_KEY]);
        let blocks = pem::blocks(bundle.as_bytes());
        let (gone, kept): (Vec<_>, Vec<_>) =
            blocks.iter().partition(|block| super::inventory::sha256(&block.der) == digest);
        if gone.is_empty() {
            continue;
        }
        let kept: String = kept.iter().map(|block| pem::encode(&block.label, &block.der)).collect();
        let patch = json!({"metadata": {"resourceVersion": text(&map, &["metadata", "resourceVersion"])},
            "data": {BUNDLE_KEY: kept}});
        connection.merge::<Value>(&resource.object(&place.name), &patch).await.map_err(failed())?;
        is_done = true;
    }
    Ok(is_done)
}

/// Converts a digest from the form of lists or openssl to that of lists.
fn digest(text: &str) -> Result<String, Failure> {
    let digits: String = text.chars().filter(|c| *c != ':').collect::<String>().to_ascii_lowercase();
    if digits.len() != 64 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(Failure::input(format_args!("--sha256 {text:?}: 64 hexadecimal digits are expected")));
    }
    Ok(digits)
}
