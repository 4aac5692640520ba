//! `portcullis bootstrap worker`: the token of the account that bootstraps nodes (NB-30 to NB-35).

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use portcullis_client::Connection;
use portcullis_client::connect::Credential;
use portcullis_server::registry::bootstrap_authorities::KEEP_TOKEN;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::cluster::{
    self, ensure_binding, ensure_namespace, field, is_going, made, secrets, service_accounts, text,
};
use super::common::{ListArgs, PlaceFlags, ServerFlags, duration, println_done, refused};
use super::confirm::confirm;
use super::inventory::{Row, print, sha256};
use super::output::{Holder, OutputFlags, kubeconfig};
use crate::failure::Failure;

/// The name of this kind in lists.
const KIND: &str = "worker";
const SECRET_TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_ANNOTATION: &str = "kubernetes.io/service-account.name";
/// The interval at which a secret is read again.
const PAUSE: Duration = Duration::from_millis(50);

/// The token of a service account, for workers and all other machines
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Write a kubeconfig with the account's token; the account and the token are created if they do not exist
    ///
    /// The account is annotated, so that `portcullis serve` creates another token whenever the secret with the token is
    /// deleted. The command waits until the secret contains a token: no kubeconfig is ever written without one.
    Create(TokenArgs),
    /// List the account's token: its SHA-256, never the token
    List(ListArgs),
    /// Delete the secret, which revokes the token at once; with --output, write a kubeconfig with the new one
    Revoke(TokenArgs),
}

#[derive(Args, Debug)]
pub(crate) struct TokenArgs {
    #[command(flatten)]
    output: OutputFlags,

    #[command(flatten)]
    server: ServerFlags,

    #[command(flatten)]
    places: PlaceFlags,

    /// How long to wait for the creation of a token, and until the API server accepts it
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    timeout: Duration,
}

/// Runs the command.
///
/// # Errors
/// See [`super::run`].
pub(super) async fn run(verb: &Verb) -> Result<ExitCode, Failure> {
    match verb {
        Verb::Create(args) => create(args).await,
        Verb::List(args) => {
            let connection = args.server.connect().await?;
            print(&rows(&connection, &args.places).await?, args.form)
        }
        Verb::Revoke(args) => revoke(args).await,
    }
}

async fn create(args: &TokenArgs) -> Result<ExitCode, Failure> {
    let connection = args.server.connect().await?;
    let endpoint = args.output.server(&connection.server(), &connection.certificate_authority())?;
    let output = args.output.begin()?;
    let account = &args.places.account;
    ensure_namespace(&connection, &account.namespace).await?;
    ensure_binding(&connection, &cluster::account_binding(account)).await?;
    ensure_account(&connection, &args.places).await?;
    let (_, token) = token(&connection, &args.places, "", args.timeout).await?;
    confirm(&connection, Credential::Token(token.clone()), &args.places.user(), args.timeout).await?;
    output.finish(&kubeconfig(&endpoint, &Holder::Token(&token)))?;
    let digest = sha256(token.as_bytes());
    eprintln!(
        "machines with this kubeconfig may now join as {}; the token has SHA-256 digest {digest}",
        args.places.user()
    );
    Ok(ExitCode::SUCCESS)
}

/// Creates the account if it does not exist, annotates it, and creates its secret.
async fn ensure_account(connection: &Connection, places: &PlaceFlags) -> Result<(), Failure> {
    let account = &places.account;
    let resource = service_accounts(&account.namespace);
    let failed = || refused(format!("make the service account {account}"));
    let marks = json!({KEEP_TOKEN: "true"});
    match connection.find(&resource, &account.name).await.map_err(failed())? {
        None => {
            let object = json!({"apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": account.name, "namespace": account.namespace, "annotations": marks}});
            made(connection.create::<Value>(&resource, &object).await).map_err(failed())?;
        }
        Some(found) if text(&found, &["metadata", "annotations", KEEP_TOKEN]) == "true" => {}
        Some(_) => {
            let patch = json!({"metadata": {"annotations": marks}});
            connection.merge::<Value>(&resource.object(&account.name), &patch).await.map_err(failed())?;
        }
    }
    // Other API servers create none by themselves.
    let name = secret_name(places);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": SECRET_TYPE,
        "metadata": {"name": name, "namespace": account.namespace,
            "annotations": {ACCOUNT_ANNOTATION: account.name}}});
    made(connection.create::<Value>(&secrets(&account.namespace), &secret).await)
        .map_err(refused(format!("make the secret {}/{name}", account.namespace)))
}

fn secret_name(places: &PlaceFlags) -> String {
    format!("{}-token", places.account.name)
}

async fn secret(connection: &Connection, places: &PlaceFlags) -> Result<Option<Value>, Failure> {
    let (namespace, name) = (&places.account.namespace, secret_name(places));
    let found = connection.find(&secrets(namespace), &name).await;
    found.map_err(refused(format!("read the secret {namespace}/{name}")))
}

/// Returns the token in a secret; none if there is none yet (NB-35).
fn kept(secret: &Value, places: &PlaceFlags) -> Result<Option<String>, Failure> {
    let is_ours = text(secret, &["type"]) == SECRET_TYPE
        && text(secret, &["metadata", "annotations", ACCOUNT_ANNOTATION]) == places.account.name;
    if !is_ours {
        return Err(Failure::input(format_args!(
            "the secret {} in namespace {} is not for tokens of this account: delete it to create another one",
            secret_name(places),
            places.account.namespace
        )));
    }
    Ok(Some(field(secret, "token")).filter(|token| !token.is_empty()))
}

/// Waits for a token in a secret whose UID is not `but`, and returns the UID and the token.
async fn token(
    connection: &Connection,
    places: &PlaceFlags,
    but: &str,
    timeout: Duration,
) -> Result<(String, String), Failure> {
    let until = Instant::now() + timeout;
    loop {
        if let Some(secret) = secret(connection, places).await? {
            let uid = text(&secret, &["metadata", "uid"]);

            if uid != but
                && !is_going(&secret)
                && let Some(token) = kept(&secret, places)?
            {
                return Ok((uid.to_owned(), token));
            }
        }
        if Instant::now() >= until {
            return Err(Failure::unreachable(format_args!(
                "BootstrapTokenPending: the secret {} in namespace {} has no new token after {} s, so no kubeconfig is \
                 written; try again with --timeout",
                secret_name(places),
                places.account.namespace,
                timeout.as_secs()
            )));
        }
        sleep(PAUSE).await;
    }
}

/// Returns the list row of the token.
///
/// # Errors
/// See [`super::run`].
pub(super) async fn rows(connection: &Connection, places: &PlaceFlags) -> Result<Vec<Row>, Failure> {
    let Some(secret) = secret(connection, places).await? else { return Ok(Vec::new()) };
    let token = kept(&secret, places)?;
    let note = match &token {
        Some(_) => format!("{}/{}", places.account.namespace, secret_name(places)),
        None => "BootstrapTokenPending".to_owned(),
    };
    Ok(vec![Row {
        kind: KIND,
        subject: places.user(),
        sha256: token.map(|token| sha256(token.as_bytes())).unwrap_or_default(),
        not_after: "never".to_owned(),
        revoked: is_going(&secret),
        note,
    }])
}

async fn revoke(args: &TokenArgs) -> Result<ExitCode, Failure> {
    let connection = args.server.connect().await?;
    let endpoint = args.output.server(&connection.server(), &connection.certificate_authority())?;
    let output = args.output.output.is_some().then(|| args.output.begin()).transpose()?;
    let namespace = &args.places.account.namespace;
    let gone = match secret(&connection, &args.places).await? {
        None => None,
        Some(secret) => {
            let deleted = cluster::delete(&connection, &secrets(namespace), &secret).await;
            let failed = refused(format!("delete the secret {namespace}/{}", secret_name(&args.places)));
            deleted.map_err(failed)?.then_some(secret)
        }
    };
    let Some(gone) = gone else {
        eprintln!("there is nothing to revoke: no Secret contains a token");
        return Ok(ExitCode::from(1));
    };
    println_done("revoked: the token of the worker is refused")?;
    let Some(output) = output else { return Ok(ExitCode::SUCCESS) };
    ensure_account(&connection, &args.places).await?;
    let uid = text(&gone, &["metadata", "uid"]);
    let (_, new) = token(&connection, &args.places, uid, args.timeout).await?;
    if kept(&gone, &args.places)?.as_deref() == Some(new.as_str()) {
        // An API server with deterministic (RSA) signatures, whose new token has the same claims.
        return Err(Failure::unreachable(
            "the API server has made the same token again, so nothing is revoked and no kubeconfig is written: delete \
             the service account as well",
        ));
    }
    confirm(&connection, Credential::Token(new.clone()), &args.places.user(), args.timeout).await?;
    output.finish(&kubeconfig(&endpoint, &Holder::Token(&new)))?;
    eprintln!("the new token has SHA-256 digest {}", sha256(new.as_bytes()));
    Ok(ExitCode::SUCCESS)
}
