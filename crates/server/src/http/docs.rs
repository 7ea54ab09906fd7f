//! Renders the OpenAPI document as one self-contained HTML page.

use super::Http;
use super::openapi::Document;
use axum::extract::State;
use axum::response::Html;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::sync::LazyLock;
use utoipa::OpenApi;

const META: &str = "<meta charset=\"utf-8\">\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
    <meta name=\"color-scheme\" content=\"light dark\">";
const STYLE: &str = include_str!("docs.css");

/// The Content-Security-Policy of HTML pages: it blocks all loading and scripts, and allows one style by its
/// hash.
pub(super) fn content_policy() -> &'static str {
    static POLICY: LazyLock<String> = LazyLock::new(|| {
        let style = STANDARD.encode(Sha256::digest(STYLE));
        format!(
            "default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'"
        )
    });
    &POLICY
}

/// This documentation as a page.
#[utoipa::path(
    get, path = "/docs", tag = "operation", operation_id = "docs",
    responses((status = 200, description = "One page, without anything from elsewhere", content_type = "text/html", body = String))
)]
pub(crate) async fn page(State(_): State<Http>) -> Html<String> {
    let document = serde_json::to_value(Document::openapi()).unwrap_or_default();
    Html(render(&document))
}

fn render(document: &Value) -> String {
    let mut page = Page(String::new());
    let info = &document["info"];
    page.head(&text(&info["title"]), &text(&info["description"]));
    page.contents(document);
    for tag in list(&document["tags"]) {
        page.chapter(document, tag);
    }
    page.forms(&document["components"]["schemas"]);
    page.add(format_args!("</main></body></html>\n"));
    page.0
}

struct Page(String);

impl Page {
    fn add(&mut self, html: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.0.write_fmt(html);
    }

    fn head(&mut self, title: &str, what: &str) {
        self.add(format_args!("<!doctype html><html lang=\"en\"><head>{META}"));
        self.add(format_args!("<title>{title} over HTTP</title><style>{STYLE}</style></head>"));
        self.add(format_args!("<body><main><h1>{title} over HTTP</h1><p>{what}</p>"));
    }

    /// Adds the table of contents, with links.
    fn contents(&mut self, document: &Value) {
        self.add(format_args!("<nav>"));
        for tag in list(&document["tags"]) {
            self.add(format_args!("<h4>{}</h4><ul>", text(&tag["name"])));
            for (path, method, operation) in operations(document, tag) {
                let id = text(&operation["operationId"]);
                let what = text(&operation["summary"]);
                let method = method.to_uppercase();
                let path = escaped(path);
                self.add(format_args!(
                    "<li><a href=\"#{id}\"><b>{method}</b> <code>{path}</code></a> {what}</li>"
                ));
            }
            self.add(format_args!("</ul>"));
        }
        self.add(format_args!("</nav>"));
    }

    fn chapter(&mut self, document: &Value, tag: &Value) {
        self.add(format_args!(
            "<h2>{}</h2><p>{}</p>",
            text(&tag["name"]),
            text(&tag["description"])
        ));
        for (path, method, operation) in operations(document, tag) {
            self.operation(path, method, operation);
        }
    }

    fn operation(&mut self, path: &str, method: &str, operation: &Value) {
        let method = method.to_uppercase();
        let path = escaped(path);
        let id = text(&operation["operationId"]);
        let what = text(&operation["summary"]);
        self.add(format_args!(
            "<section id=\"{id}\"><h3><b>{method}</b> <code>{path}</code></h3><p>{what}</p>"
        ));
        self.rows("Arguments", list(&operation["parameters"]).iter().map(parameter));
        let body = &operation["requestBody"];
        if body.is_object() {
            let row = [content(body), text(&body["description"])];
            self.rows("Body", std::iter::once(row));
        }
        let answers = fields(&operation["responses"]);
        self.rows(
            "Answers",
            answers.map(|(status, answer)| {
                [escaped(status), format!("{} {}", text(&answer["description"]), content(answer))]
            }),
        );
        self.add(format_args!("</section>"));
    }

    fn rows(&mut self, title: &str, rows: impl Iterator<Item = [String; 2]>) {
        let rows: String =
            rows.map(|[name, what]| format!("<tr><td>{name}</td><td>{what}</td></tr>")).collect();
        if !rows.is_empty() {
            self.add(format_args!("<h4>{title}</h4><table>{rows}</table>"));
        }
    }

    fn forms(&mut self, schemas: &Value) {
        self.add(format_args!("<h2>forms</h2>"));
        for (name, schema) in fields(schemas) {
            let name = escaped(name);
            self.add(format_args!(
                "<section id=\"{name}\"><h3><code>{name}</code></h3><p>{}</p>",
                text(&schema["description"])
            ));
            self.rows(
                "Fields",
                fields(&schema["properties"]).map(|(field, what)| {
                    [
                        format!("<code>{}</code>", escaped(field)),
                        format!("{} {}", kind(what), text(&what["description"])),
                    ]
                }),
            );
            self.rows("One of", list(&schema["oneOf"]).iter().map(choice));
            self.add(format_args!("</section>"));
        }
    }
}

/// The operations of a tag: path, method, and the operation's description.
fn operations<'d>(
    document: &'d Value,
    tag: &'d Value,
) -> impl Iterator<Item = (&'d str, &'d str, &'d Value)> {
    let all = fields(&document["paths"]).flat_map(|(path, methods)| {
        fields(methods).map(move |(method, operation)| (path, method, operation))
    });
    all.filter(|(_, _, operation)| list(&operation["tags"]).first() == Some(&tag["name"]))
}

/// A table row for a parameter: name and location, type and description.
fn parameter(parameter: &Value) -> [String; 2] {
    let need = if parameter["required"] == true { ", required" } else { "" };
    let name = format!(
        "<code>{}</code><br><small>{}{need}</small>",
        text(&parameter["name"]),
        text(&parameter["in"])
    );
    [name, format!("{} {}", kind(&parameter["schema"]), text(&parameter["description"]))]
}

/// A table row for a variant of an enum: its word, or its single field.
fn choice(choice: &Value) -> [String; 2] {
    let what = text(&choice["description"]);
    match fields(&choice["properties"]).next() {
        Some((field, form)) => {
            [format!("<code>{}</code>", escaped(field)), format!("{} {what}", kind(form))]
        }
        None => [format!("<code>{}</code>", text(&choice["enum"][0])), what],
    }
}

/// The media types and schemas of a body.
fn content(body: &Value) -> String {
    fields(&body["content"])
        .map(|(media, content)| {
            format!("<small>{}</small> {}", escaped(media), kind(&content["schema"]))
        })
        .collect()
}

/// The type of a schema, with a link to its description.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        let name = escaped(name);
        return format!("<a href=\"#{name}\">{name}</a>");
    }
    let one_of = list(&schema["oneOf"]).iter().map(kind).filter(|kind| !kind.is_empty());
    let names: Vec<String> = match &schema["type"] {
        Value::String(name) if name == "array" => {
            vec![format!("array of {}", kind(&schema["items"]))]
        }
        Value::String(name) => vec![format!("<small>{}</small>", escaped(name))],
        Value::Array(names) => {
            names.iter().map(|name| format!("<small>{}</small>", text(name))).collect()
        }
        _ => one_of.collect(),
    };
    names.join(" or ")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn fields(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

/// Escapes prose and renders text between backticks as code.
fn text(value: &Value) -> String {
    let parts = value.as_str().unwrap_or_default().split('`').enumerate();
    let part = |(number, part): (usize, &str)| match number % 2 {
        0 => escaped(part),
        _ => format!("<code>{}</code>", escaped(part)),
    };
    parts.map(part).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
