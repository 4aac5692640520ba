//! Validation of projected, ConfigMap, Secret and downward API volumes.

use std::collections::BTreeSet;

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::names;

use crate::fields::{ErrorList, Errors, Field};
use crate::resources::pods::syntax;
use crate::resources::pods::validate::{Kept, env, selectors};

/// The pod fields that a file can contain.
const FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

pub(super) fn validate(projected: &Field<'_>, kept: &Kept, errors: &mut Errors) {
    mode(&projected.child("defaultMode"), errors);
    let mut paths = BTreeSet::new();
    for source in projected.child("sources").items() {
        let mut kinds = 0;
        for kind in ["secret", "configMap"] {
            let Some(projection) = source.child(kind).set() else { continue };
            kinds += 1;
            errors.require(&projection.child("name"));
            for item in projection.child("items").items() {
                key_to_path(&item, errors);
                let path = item.child("path");
                if !path.text().is_empty() {
                    errors.extend(conflict(projected, &path, &mut paths));
                }
            }
        }
        if let Some(projection) = source.child("downwardAPI").set() {
            kinds += 1;
            for file in projection.child("items").items() {
                // The path is that of the projection.
                downward_file(&file.named(projection.path()), errors);
                let path = file.child("path");
                if !path.text().is_empty() {
                    errors.extend(conflict(projected, &path, &mut paths));
                }
            }
        }
        if let Some(token) = source.child("serviceAccountToken").set() {
            kinds += 1;
            service_account_token(projected, &token, kept, errors);
        }
        if let Some(bundle) = source.child("clusterTrustBundle").set() {
            kinds += 1;
            trust_bundle(&bundle, errors);
            errors.extend(conflict(projected, &bundle.child("path"), &mut paths));
        }
        if source.child("podCertificate").is_set() {
            kinds += 1;
        }
        errors.push_if(kinds > 1, || source.forbidden("may not specify more than 1 volume type per source"));
    }
}

/// Reports two files at one path. The error has the path of the volume source.
fn conflict<'a>(
    projected: &Field<'_>,
    path: &Field<'a>,
    paths: &mut BTreeSet<&'a str>,
) -> Option<FieldError> {
    (!paths.insert(path.text())).then(|| path.named(projected.path()).invalid("conflicting duplicate paths"))
}

fn service_account_token(projected: &Field<'_>, token: &Field<'_>, kept: &Kept, errors: &mut Errors) {
    let seconds = token.child("expirationSeconds");
    if seconds.number() < 600 {
        errors.push(seconds.invalid("may not specify a duration less than 10 minutes"));
    }
    if seconds.number() > 1 << 32 {
        errors.push(seconds.invalid("may not specify a duration larger than 2^32 seconds"));
    }
    // The field path omits the source.
    let path = token.child("path").named(projected.path().member("path"));
    if path.text().is_empty() {
        errors.push(path.required(""));
    } else if !kept.token_paths {
        errors.extend(path.faults(syntax::unreserved_path));
    }
}

fn trust_bundle(bundle: &Field<'_>, errors: &mut Errors) {
    let name = bundle.child("name");
    let signer = bundle.child("signerName");
    match (name.is_set(), signer.is_set()) {
        (true, true) => errors.push(bundle.invalid("only one of name and signerName may be used")),
        (true, false) => {
            errors.push_if(name.text().is_empty(), || name.required("must be a valid object name"));
            errors.extend(name.faults(bundle_name));
            let labels = bundle.child("labelSelector");
            if labels.is_set() {
                errors.push(labels.invalid("labelSelector must be unset if name is specified"));
            }
        }
        (false, true) => {
            errors.push_if(signer.text().is_empty(), || signer.required("must be a valid signer name"));
            if !signer
                .text()
                .split_once('/')
                .is_some_and(|(domain, name)| !domain.is_empty() && !name.is_empty())
            {
                errors.push(signer.invalid(
                    "must be a fully qualified domain and path of the form 'example.com/signer-name'",
                ));
            }
            selectors::selector(&bundle.child("labelSelector"), false, errors);
        }
        (false, false) => errors.push(bundle.required("either name or signerName must be specified")),
    }
    let path = bundle.child("path");
    errors.require(&path);
    errors.extend(path.faults(syntax::unreserved_path));
}

/// The name of a trust bundle. It starts with the signer name, with colons for slashes, if it has one.
fn bundle_name(text: &str) -> names::Faults {
    names::subdomain_errors(text.rsplit_once(':').map_or(text, |(_, name)| name))
}

pub(super) fn key_to_path(item: &Field<'_>, errors: &mut Errors) {
    let key = item.child("key");
    let path = item.child("path");
    errors.require(&key);
    errors.require(&path);
    errors.extend(path.faults(syntax::unreserved_path));
    mode(&item.child("mode"), errors);
}

pub(super) fn downward_file(file: &Field<'_>, errors: &mut Errors) {
    let path = file.child("path");
    errors.require(&path);
    errors.extend(path.faults(syntax::unreserved_path));
    let field = file.child("fieldRef");
    let resource = file.child("resourceFieldRef");
    if field.is_set() {
        env::field_ref(&field, &FIELDS, errors);
        if resource.is_set() {
            errors.push(file.invalid("fieldRef and resourceFieldRef can not be specified simultaneously"));
        }
    } else if resource.is_set() {
        env::resource_ref(&resource, true, errors);
    } else {
        errors.push(file.required("one of fieldRef and resourceFieldRef is required"));
    }
    mode(&file.child("mode"), errors);
}

/// The permissions of a file.
pub(super) fn mode(mode: &Field<'_>, errors: &mut Errors) {
    if mode.number_if_set().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        errors.push(mode.invalid("must be a number between 0 and 0777 (octal), both inclusive"));
    }
}

fn tokens<'a>(spec: &Field<'a>) -> Vec<(Field<'a>, Field<'a>)> {
    let projected = spec.child("volumes").items().map(|volume| volume.child("projected")).collect::<Vec<_>>();
    let tokens = projected.into_iter().flat_map(|projected| {
        let sources = projected.child("sources").items().map(|source| source.child("serviceAccountToken"));
        sources.map(|token| (projected.clone(), token)).collect::<Vec<_>>()
    });
    tokens.filter(|(_, token)| token.is_set()).collect()
}

/// MP-18: a pod without a service account cannot project a token.
pub(super) fn tokens_without_account(spec: &Field<'_>, errors: &mut Errors) {
    for (_, token) in tokens(spec) {
        errors.push(token.forbidden("must not be specified when serviceAccountName is not set"));
    }
}

/// The token paths of a spec.
pub(super) fn token_paths(spec: &Field<'_>, _: &Kept, errors: &mut Errors) {
    for (_, token) in tokens(spec) {
        errors.extend(token.child("path").faults(syntax::unreserved_path));
    }
}
