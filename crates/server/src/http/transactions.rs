//! Route that executes a transaction given as JSON.

use super::Http;
use super::access::Asking;
use super::conditions::identified;
use super::extract::{Text, form};
use super::forms::{GuardForm, ReceiptForm, StepForm};
use super::json::Json;
use super::refusal::{Answered, Problem};
use crate::outbox;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use mainstay::{Durability, MAIN, Result, Step, Transaction};
use serde::Deserialize;
use utoipa::ToSchema;

/// A mix of commands that takes effect as a whole or not at all.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TransactionForm {
    /// The branch it reads and writes; `main` without it.
    branch: Option<String>,
    /// What must hold for the commands to run.
    #[serde(default)]
    guards: Vec<GuardForm>,
    /// What it does.
    #[serde(default)]
    commands: Vec<StepForm>,
    /// What it does instead when a guard fails; without it the transaction fails.
    otherwise: Option<Vec<StepForm>>,
    /// What must have happened before the answer; without it, as the database is set.
    durability: Option<DurabilityForm>,
}

/// What must have happened before a write is answered.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DurabilityForm {
    /// On stable storage.
    Sync,
    /// Visible; on stable storage within the sync interval.
    Interval,
    /// Visible; never synced on its own.
    Memory,
}

impl From<DurabilityForm> for Durability {
    fn from(form: DurabilityForm) -> Durability {
        match form {
            DurabilityForm::Sync => Durability::Sync,
            DurabilityForm::Interval => Durability::Interval,
            DurabilityForm::Memory => Durability::Memory,
        }
    }
}

impl TransactionForm {
    fn transaction(self, sent: &outbox::Settings) -> Result<Transaction> {
        let mut transaction = Transaction::on(self.branch.as_deref().unwrap_or(MAIN));
        transaction.guards =
            self.guards.into_iter().map(GuardForm::guard).collect::<Result<_>>()?;
        transaction.steps = steps(self.commands, sent)?.into();
        let otherwise = self.otherwise.map(|forms| steps(forms, sent));
        transaction.otherwise = otherwise.transpose()?;
        transaction.durability = self.durability.map(Durability::from);
        Ok(transaction)
    }
}

fn steps(forms: Vec<StepForm>, sent: &outbox::Settings) -> Result<Vec<Step>> {
    let step = |(position, form): (usize, StepForm)| {
        form.step(sent).map_err(|error| error.at_position(position))
    };
    forms.into_iter().enumerate().map(step).collect()
}

/// Parses a transaction from JSON. The outbox settings supply the defaults for messages.
pub(crate) fn read(text: &str, sent: &outbox::Settings) -> Answered<Transaction> {
    Ok(form::<TransactionForm>(text)?.transaction(sent)?)
}

/// Executes a transaction: guards, commands, and what to do otherwise.
#[utoipa::path(
    post, path = "/v1/transactions", tag = "transactions", operation_id = "execute_transaction", request_body = TransactionForm,
    params(("Idempotency-Key" = Option<String>, Header, description = "Names the request, 1 to 64 bytes: asking again gives the same receipt and does nothing twice")),
    responses(
        (status = 200, description = "It is committed, and its answers in order", body = ReceiptForm),
        (status = 400, description = "It is wrong; `position` names the command", body = Problem),
        (status = 409, description = "A guard or a `must` failed", body = Problem),
        (status = 413, description = "It is too large", body = Problem),
        (status = 422, description = "The Idempotency-Key was used for another request", body = Problem),
    )
)]
pub(crate) async fn execute(
    State(app): State<Http>,
    asking: Asking,
    headers: HeaderMap,
    body: Body,
) -> Answered<Json<ReceiptForm>> {
    let body = Text::read(&app, &headers, body, app.settings().transaction_limit_bytes).await?;
    let sent = app.settings().outbox.clone();
    let (transaction, _room) = body.parse(&app, move |text| read(text, &sent)).await?;
    let receipt = app.write(&asking, identified(&headers, transaction)?).await?;
    app.answer(receipt, |receipt| Ok(Json::of(ReceiptForm::of(receipt)?))).await
}
