//! The OpenAPI document, generated from the handlers.

use super::json::Json;
use super::{Http, branches, cells, docs, feed, health, history, indexes, metrics, record_history};
use super::{job_reads, jobs, locks, outbox, records, runs, slow_log, tags, tails};
use super::{sessions, snapshots, spaces, states, transactions, transfer};
use axum::extract::State;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{ContentBuilder, Ref, Required, ResponseBuilder};
use utoipa::{Modify, OpenApi};

/// The OpenAPI document of all routes.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Mainstay",
        description = "The state engine over HTTP: cells and records with compare-and-swap, jobs and locks, runs and an outbox, keyed state, sessions whose requests are done once, transactions, history, branches and a feed of every change. \
            Every error has the form {\"error\": {code, kind, message}}. A server with users wants Basic \
            authentication: 401 without it, 403 where the user may not."
    ),
    paths(
        cells::list, cells::get, cells::put, cells::delete, cells::incr, history::history,
        records::list, records::get, records::put, records::patch, records::delete, records::count,
        record_history::history,
        indexes::list, indexes::add, indexes::info, indexes::drop, indexes::explain,
        jobs::submit, jobs::submit_all, jobs::claim, jobs::beat, jobs::step, jobs::complete, jobs::fail, jobs::cancel,
        jobs::retry, job_reads::get, job_reads::list, job_reads::count, job_reads::history, job_reads::input,
        job_reads::output, job_reads::sweep,
        locks::take, locks::renew, locks::free, locks::get,
        runs::list, runs::get, runs::bootstrap, runs::delete, runs::append_events, runs::fetch, tails::tail,
        runs::snapshot, runs::project, runs::alerts, runs::key,
        outbox::put, outbox::claim, outbox::ack, outbox::fail, outbox::look, outbox::dead, outbox::replay,
        spaces::list, spaces::info, spaces::declare, spaces::drop, spaces::seal, spaces::positions, spaces::waiting,
        states::scan, states::write, states::get, states::put, states::delete, states::items, states::append,
        snapshots::take, snapshots::restore,
        sessions::open, sessions::list, sessions::info, sessions::close, sessions::keep_alive, sessions::send,
        sessions::pending, sessions::acknowledge, sessions::retry,
        transactions::execute,
        branches::list, branches::fork, branches::info, branches::delete, branches::diff, branches::merge,
        tags::list, tags::put, tags::delete,
        transfer::export, transfer::import, transfer::backup,
        feed::stream, feed::page,
        health::alive, health::ready, metrics::show, slow_log::show, document, docs::page,
    ),
    tags(
        (name = "cells", description = "Named values with compare-and-swap, counters and full history"),
        (name = "records", description = "Fields with bytes under a key, with conditions, times to live and scans"),
        (name = "jobs", description = "Jobs with leases, fencing, dependencies, priorities and times"),
        (name = "locks", description = "One holder at a time, with a lease and a token that only rises"),
        (name = "runs", description = "Append-only logs of events, what they add up to, and those who follow them"),
        (name = "outbox", description = "Messages that are written with a transaction and sent behind it"),
        (name = "keyed", description = "Spaces of keys whose writes carry versions, so that each is applied once"),
        (name = "sessions", description = "Requests that are done once, however often they are sent, and requests of the server to its clients"),
        (name = "transactions", description = "Any mix of commands, all or nothing"),
        (name = "branches", description = "Fork in constant time, compare, merge"),
        (name = "tags", description = "Revisions with names"),
        (name = "files", description = "A branch there and back, and backups"),
        (name = "feed", description = "Every committed change once, in order"),
        (name = "operation", description = "About the server itself"),
    ),
    modifiers(&InSessions)
)]
pub(crate) struct Document;

/// Adds the session headers to every operation that takes an `Idempotency-Key`, because all of them can be
/// requests of a session.
struct InSessions;

impl Modify for InSessions {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        for item in document.paths.paths.values_mut() {
            let methods =
                [&mut item.put, &mut item.post, &mut item.patch, &mut item.delete].into_iter();
            methods.flatten().for_each(add_headers);
        }
    }
}

fn add_headers(operation: &mut Operation) {
    let parameters = operation.parameters.get_or_insert_default();
    if !parameters.iter().any(|parameter| parameter.name == "Idempotency-Key") {
        return;
    }
    parameters.push(header(
        "Mainstay-Session",
        "A session: makes this its request of the number that Idempotency-Key is then",
    ));
    parameters.push(header(
        "Mainstay-Lowest",
        "The lowest request of the session whose answer the client has not got; those below go",
    ));
    let gone = ResponseBuilder::new()
        .description("There is no such session, or the answer to this request is gone")
        .content(
            "application/json",
            ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build(),
        );
    let responses = &mut operation.responses.responses;
    responses.entry("410".to_owned()).or_insert_with(|| gone.build().into());
}

fn header(name: &str, description: &str) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(description))
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
        .build()
}

/// This document.
#[utoipa::path(
    get, path = "/openapi.json", tag = "operation", operation_id = "openapi",
    responses((status = 200, description = "OpenAPI 3.1", body = serde_json::Value))
)]
pub(crate) async fn document(State(_): State<Http>) -> Json<utoipa::openapi::OpenApi> {
    Json::of(Document::openapi())
}
