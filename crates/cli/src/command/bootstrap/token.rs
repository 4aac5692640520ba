//! `portcullis bootstrap token`: bootstrap tokens, as in kubeadm (AN-100 to AN-105).

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use portcullis_apimachinery::duration::parse_unsigned;
use portcullis_client::connect::Credential;
use portcullis_client::{Connection, Resource};
use portcullis_server::authn::bootstrap_token::is_group;
use serde_json::{Map, Value, json};

use super::cluster::{self, ensure_binding, field, is_going, secrets, text};
use super::common::{ServerFlags, println_done, refused};
use super::confirm::{WaitFlags, confirm};
use super::inventory::{FormFlags, Row, print, sha256, time};
use super::output::{Holder, OutputFlags, kubeconfig};
use crate::failure::Failure;

/// The name of this kind in lists.
const KIND: &str = "token";
const NAMESPACE: &str = "kube-system";
const NAME_PREFIX: &str = "bootstrap-token-";
const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
/// The default group of kubeadm, which has the permissions that nodes need.
const GROUP: &str = "system:bootstrappers:kubeadm:default-node-token";
const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
/// The maximum number of tokens that are read at a time.
const PAGE: usize = 500;

/// A bootstrap token, ID.SECRET, stored in a secret of namespace kube-system
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Create(CreateArgs),
    List(ListArgs),
    Revoke(RevokeArgs),
}

/// Create a token and write a kubeconfig with it
///
/// Holders of a token with the default group may request certificates: the role system:node-bootstrapper is bound to
/// it. Other groups are given no permissions here.
#[derive(Args, Debug)]
pub(crate) struct CreateArgs {
    #[command(flatten)]
    output: OutputFlags,

    #[command(flatten)]
    server: ServerFlags,

    #[command(flatten)]
    wait: WaitFlags,

    /// The lifetime of the token, such as 2h; 0 for unlimited
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = ttl)]
    ttl: Duration,

    /// The usages: authentication, signing; comma separated
    #[arg(long, value_name = "USAGES", value_delimiter = ',', default_value = "signing,authentication", value_parser = ["signing", "authentication"])]
    usages: Vec<String>,

    /// Groups of its holder in addition to system:bootstrappers, each system:bootstrappers:...; comma separated
    #[arg(long, value_name = "GROUPS", value_delimiter = ',', default_value = GROUP, value_parser = group)]
    groups: Vec<String>,

    /// A description of its purpose
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    description: String,
}

/// List the tokens: ID and SHA-256, never the token
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    server: ServerFlags,

    #[command(flatten)]
    form: FormFlags,
}

/// Delete tokens, which revokes them at once
#[derive(Args, Debug)]
pub(crate) struct RevokeArgs {
    /// The IDs of the tokens, or the tokens
    #[arg(value_name = "ID", required = true, value_parser = id)]
    ids: Vec<String>,

    #[command(flatten)]
    server: ServerFlags,
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
            print(&rows(&connection).await?, args.form)
        }
        Verb::Revoke(args) => revoke(args).await,
    }
}

async fn create(args: &CreateArgs) -> Result<ExitCode, Failure> {
    let connection = args.server.connect().await?;
    let endpoint = args.output.server(&connection.server(), &connection.certificate_authority())?;
    let output = args.output.begin()?;
    let (id, secret) = (random(6)?, random(16)?);
    let mut data = Map::new();
    let mut put = |key: &str, value: &str| data.insert(key.to_owned(), value.into());
    put("token-id", &id);
    put("token-secret", &secret);
    if !args.ttl.is_zero() {
        let end = SystemTime::now().checked_add(args.ttl).map(time);
        let end = end.filter(|end| end != "unknown");
        let end = end.ok_or_else(|| Failure::input("--ttl: too long; 0 is unlimited"))?;
        put("expiration", &end);
    }
    for usage in &args.usages {
        put(&format!("usage-bootstrap-{usage}"), "true");
    }
    put("auth-extra-groups", &args.groups.join(","));
    if !args.description.is_empty() {
        put("description", &args.description);
    }
    if args.groups.iter().any(|group| group == GROUP) {
        ensure_binding(&connection, &cluster::token_binding(GROUP)).await?;
    }
    let name = format!("{NAME_PREFIX}{id}");
    let object = json!({"apiVersion": "v1", "kind": "Secret", "type": SECRET_TYPE,
        "metadata": {"name": name, "namespace": NAMESPACE}, "stringData": data});
    let stored = connection
        .create::<Value>(&secrets(NAMESPACE), &object)
        .await
        .map_err(refused(format!("make the secret {NAMESPACE}/{name}")))?;
    let (user, token) = (format!("system:bootstrap:{id}"), format!("{id}.{secret}"));
    let authenticates = args.usages.iter().any(|usage| usage == "authentication");
    if authenticates
        && let Err(failure) =
            confirm(&connection, Credential::Token(token.clone()), &user, args.wait.timeout).await
    {
        let undone = match cluster::delete(&connection, &secrets(NAMESPACE), &stored).await {
            Ok(_) => "the token was deleted again".to_owned(),
            Err(error) => format!("delete the token with `token revoke {id}`, which failed here: {error}"),
        };
        return Err(Failure::unreachable(format_args!(
            "{failure}; no kubeconfig is written, and {undone}. Check that the server authenticates bootstrap tokens \
             (--enable-bootstrap-token-auth of kube-apiserver)"
        )));
    }
    output.finish(&kubeconfig(&endpoint, &Holder::Token(&token)))?;
    match authenticates {
        true => eprintln!("machines with this kubeconfig may now join as {user}"),
        false => eprintln!("created the bootstrap token {id}, which does not authenticate (--usages)"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns random characters of a token, uniformly distributed.
fn random(length: usize) -> Result<String, Failure> {
    let mut text = String::new();
    while text.len() < length {
        let mut bytes = [0_u8; 32];
        getrandom::fill(&mut bytes).map_err(|error| {
            Failure::unreachable(format_args!("the system has no random numbers: {error}"))
        })?;
        // Values above a multiple of 36 would make some characters more likely.
        for byte in bytes.into_iter().filter(|byte| *byte < 252).take(length - text.len()) {
            text.extend(ALPHABET.get(usize::from(byte % 36)).map(|c| char::from(*c)));
        }
    }
    Ok(text)
}

/// Returns the list rows of the tokens.
///
/// # Errors
/// See [`super::run`].
pub(super) async fn rows(connection: &Connection) -> Result<Vec<Row>, Failure> {
    let resource: Resource = secrets(NAMESPACE);
    let mut rows = Vec::new();
    let mut next = String::new();
    loop {
        let path =
            format!("{}?fieldSelector=type%3D{SECRET_TYPE}&limit={PAGE}&continue={next}", resource.path());
        let page: Value = connection
            .call(http::Method::GET, &path, None)
            .await
            .map_err(refused(format!("list the secrets of namespace {NAMESPACE}")))?;
        rows.extend(page.get("items").and_then(Value::as_array).into_iter().flatten().map(row));
        match text(&page, &["metadata", "continue"]) {
            more if more.is_empty() || more == next => return Ok(rows),
            more => more.clone_into(&mut next),
        }
    }
}

fn row(secret: &Value) -> Row {
    let id = field(secret, "token-id");
    let token = format!("{id}.{}", field(secret, "token-secret"));
    let usages: Vec<&str> = ["authentication", "signing"]
        .into_iter()
        .filter(|usage| field(secret, &format!("usage-bootstrap-{usage}")) == "true")
        .collect();
    let end = field(secret, "expiration");
    let notes = [usages.join(","), field(secret, "auth-extra-groups"), field(secret, "description")];
    Row {
        kind: KIND,
        subject: format!("system:bootstrap:{id}"),
        sha256: sha256(token.as_bytes()),
        not_after: if end.is_empty() { "never".to_owned() } else { end },
        revoked: is_going(secret),
        note: notes.into_iter().filter(|note| !note.is_empty()).collect::<Vec<_>>().join("; "),
    }
}

async fn revoke(args: &RevokeArgs) -> Result<ExitCode, Failure> {
    let connection = args.server.connect().await?;
    let mut is_missing = false;
    for id in &args.ids {
        let name = format!("{NAME_PREFIX}{id}");
        let failed = || refused(format!("delete the secret {NAMESPACE}/{name}"));
        let found = connection.find(&secrets(NAMESPACE), &name).await.map_err(failed())?;
        let is_gone = match found {
            None => false,
            Some(it) => cluster::delete(&connection, &secrets(NAMESPACE), &it).await.map_err(failed())?,
        };
        match is_gone {
            true => println_done(&format!("revoked: token {id} is refused"))?,
            false => eprintln!("there is nothing to revoke: no token has the id {id}"),
        }
        is_missing |= !is_gone;
    }
    Ok(if is_missing { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// AN-100. Returns the ID of a token.
fn id(text: &str) -> Result<String, String> {
    let is_of =
        |part: &str, length| part.len() == length && part.bytes().all(|byte| ALPHABET.contains(&byte));
    let (id, secret) = text.split_once('.').map_or((text, None), |(id, secret)| (id, Some(secret)));
    if is_of(id, 6) && secret.is_none_or(|secret| is_of(secret, 16)) {
        return Ok(id.to_owned());
    }
    // The text may be most of a token, so it is not repeated.
    Err("an ID has six lower-case letters or digits; a token has sixteen more after a dot".to_owned())
}

/// AN-103
fn group(text: &str) -> Result<String, String> {
    if is_group(text) {
        return Ok(text.to_owned());
    }
    Err("a group begins with system:bootstrappers: and goes on with small letters, digits, - and :"
        .to_owned())
}

fn ttl(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    parse_unsigned(text).ok_or_else(|| format!("{text:?} is not a duration: write it like 24h or 1h30m"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_the_form_that_authentication_wants_and_no_two_are_the_same_an_100() {
        let made: std::collections::BTreeSet<String> = (0..500).map(|_| random(16).unwrap()).collect();
        assert_eq!(made.len(), 500);
        assert!(made.iter().all(|text| text.len() == 16 && text.bytes().all(|b| ALPHABET.contains(&b))));
        let used: std::collections::BTreeSet<char> = made.iter().flat_map(|text| text.chars()).collect();
        assert_eq!(used.len(), 36, "every character comes");
    }

    #[test]
    fn an_id_is_read_alone_or_as_part_of_a_token_and_errors_repeat_nothing_an_100() {
        assert_eq!(id("abc123").as_deref(), Ok("abc123"));
        assert_eq!(id("abc123.0123456789abcdef").as_deref(), Ok("abc123"));
        for bad in ["", "abc12", "ABC123", "abc123.", "abc123.0123456789abcde", "abc1234", "../abc"] {
            assert!(id(bad).unwrap_err().find("abc").is_none(), "{bad}");
        }
    }

    #[test]
    fn groups_are_those_of_bootstrappers_an_103() {
        assert!(group(GROUP).is_ok());
        for bad in
            ["", "system:masters", "system:bootstrappers", "system:bootstrappers:", "system:bootstrappers:a-"]
        {
            assert!(group(bad).is_err(), "{bad}");
        }
    }
}
