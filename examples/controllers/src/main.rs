//! A controller of a custom kind, written with kube-rs in the usual style: it installs its definition, takes the lease of the
//! leader, and makes a ConfigMap of each Website. Run several; one works.

mod leader;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{self, Event, finalizer};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher;
use kube::{Api, Client, CustomResource, CustomResourceExt as _, Resource as _, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The field manager.
const MANAGER: &str = "website-controller";
/// Holds a Website until its archive is written.
const FINALIZER: &str = "websites.example.com/archive";

/// What a website shows.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Website",
    plural = "websites",
    shortname = "site",
    namespaced,
    status = "WebsiteStatus",
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteSpec {
    /// The title of the page.
    #[schemars(length(min = 1, max = 80))]
    title: String,
    /// The text of the page.
    #[serde(default)]
    text: String,
}

/// What the controller has done.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteStatus {
    /// `Published` once the page is written.
    phase: String,
    /// The generation that was published.
    observed_generation: i64,
    /// The process that published it.
    published_by: String,
}

/// What all reconciliations share.
struct Context {
    client: Client,
    identity: String,
}

/// Why a Website could not be brought to its state.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("{0}")]
    Finalizer(Box<finalizer::Error<Self>>),
    #[error("a Website without {0}")]
    Missing(&'static str),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = Client::try_default().await.context("no kubeconfig leads to an API server")?;
    let identity = std::env::args().nth(1).context("usage: website-controller IDENTITY NAMESPACE")?;
    let namespace = std::env::args().nth(2).unwrap_or_else(|| "default".to_owned());
    install(&client).await?;
    println!("{identity}: installed");
    let lease = leader::Lease::new(client.clone(), &namespace, MANAGER, &identity);
    lease.acquire().await?;
    println!("{identity}: leader");
    tokio::select! {
        () = run(client, identity) => Ok(()),
        lost = lease.renew() => lost.context("the lease was lost"),
    }
}

/// Applies the definition, and waits until the kind is served.
async fn install(client: &Client) -> anyhow::Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let apply = PatchParams::apply(MANAGER).force();
    let definition = Website::crd();
    definitions.patch(&definition.name_any(), &apply, &Patch::Apply(&definition)).await?;
    let name = definition.name_any();
    let established = await_condition(definitions, &name, conditions::is_crd_established());
    tokio::time::timeout(Duration::from_secs(60), established).await??;
    Ok(())
}

async fn run(client: Client, identity: String) {
    let sites: Api<Website> = Api::all(client.clone());
    let pages: Api<ConfigMap> = Api::all(client.clone());
    let context = Arc::new(Context { client, identity });
    Controller::new(sites, watcher::Config::default())
        .owns(pages, watcher::Config::default().labels("app=website"))
        .run(reconcile, |_, error, _| retry(error), context)
        .for_each(|done| async move {
            match done {
                Ok((site, _)) => println!("reconciled {}", site.name),
                Err(error) => eprintln!("{error}"),
            }
        })
        .await;
}

fn retry(error: &Error) -> Action {
    eprintln!("{error}");
    Action::requeue(Duration::from_secs(1))
}

async fn reconcile(site: Arc<Website>, context: Arc<Context>) -> Result<Action, Error> {
    let namespace = site.namespace().ok_or(Error::Missing("a namespace"))?;
    let sites: Api<Website> = Api::namespaced(context.client.clone(), &namespace);
    let pages: Api<ConfigMap> = Api::namespaced(context.client.clone(), &namespace);
    let step = finalizer(&sites, FINALIZER, site, |event| async {
        match event {
            Event::Apply(site) => publish(&site, &sites, &pages, &context.identity).await,
            Event::Cleanup(site) => archive(&site, &pages).await,
        }
    });
    step.await.map_err(|error| Error::Finalizer(Box::new(error)))
}

/// Writes the page and the status.
async fn publish(
    site: &Website,
    sites: &Api<Website>,
    pages: &Api<ConfigMap>,
    identity: &str,
) -> Result<Action, Error> {
    let name = site.name_any();
    let owner = site.controller_owner_ref(&()).ok_or(Error::Missing("a uid"))?;
    let apply = PatchParams::apply(MANAGER).force();
    let page = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"app": "website"}, "ownerReferences": [owner]},
        "data": {"index.html": format!("<h1>{}</h1>{}", site.spec.title, site.spec.text)},
    });
    pages.patch(&name, &apply, &Patch::Apply(&page)).await?;
    let status = WebsiteStatus {
        phase: "Published".to_owned(),
        observed_generation: site.metadata.generation.unwrap_or_default(),
        published_by: identity.to_owned(),
    };
    let status = json!({"apiVersion": "example.com/v1", "kind": "Website", "status": status});
    sites.patch_status(&name, &apply, &Patch::Apply(&status)).await?;
    Ok(Action::await_change())
}

/// Keeps what a Website that is deleted has shown.
async fn archive(site: &Website, pages: &Api<ConfigMap>) -> Result<Action, Error> {
    let name = format!("{}-archive", site.name_any());
    let archive = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"title": site.spec.title},
    });
    pages.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&archive)).await?;
    Ok(Action::await_change())
}
