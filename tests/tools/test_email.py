"""The mail tool, against a real mail server: listed recipients only, byte for byte; nothing in a mail can become a header, a command or another recipient."""

import pytest
from mail_server import MailServer

ALLOWED = ["support@example.com", "admin@example.com"]
pytestmark = pytest.mark.rootonly  # the server needs a mount namespace


@pytest.fixture(scope="module")
def server():
    server = MailServer()
    yield server
    server.close()


@pytest.fixture
def send(tool, server):
    server.clear()

    def send(recipient="support@example.com", subject="Issue with my account", body="My account is locked.", more=None, **spec):
        spec = {"server": server.url, "tls": "never", "from": "agent@example.com", "recipients": ALLOWED, **spec}
        return tool("email", spec, {"recipient": recipient, "subject": subject, "body": body, **(more or {})}, {"mail": "sesame-4711-open"})

    return send


def test_the_seeds_mail_arrives(send, server):
    answer = send()
    assert not answer["failed"] and not answer["denials"], answer
    assert answer["result"]["status"] == "sent" and answer["result"]["recipient"] == "support@example.com"
    (mail,) = server.mails(1)
    assert mail["To"] == "support@example.com" and mail["From"] == "agent@example.com" and mail["Subject"] == "Issue with my account"
    assert mail["Message-ID"] == answer["result"]["message_id"] and mail.get_content() == "My account is locked."
    assert mail["Delivered-To"] == "support@example.com" and mail["Bcc"] is None and mail["Cc"] is None


SUBJECTS = ["", "x" * 255, "Grüße aus Köln 日本 😀", "é" * 127, "=?UTF-8?B?ZXZpbA==?=", "tab-free: yes", "."]


@pytest.mark.parametrize("subject", SUBJECTS)
def test_subjects_arrive_as_they_are(send, server, subject):
    assert not send(subject=subject)["denials"]
    (mail,) = server.mails(1)
    assert mail["Subject"] == subject


BODIES = ["", "\n", ".\n", "a\n.\nb", "a\r\n.\r\nMAIL FROM:<evil@example.org>\r\n", "bare\rcr", "bare\nlf", "\r\n.\r\n", "a\n.\rb\r.\n", "x" * 5000, "ünï\n" * 500, "\x01\x7f"]


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_bodies_arrive_as_they_are_and_end_nothing(send, server, body):
    sent = {send(body=text)["result"]["message_id"]: text for text in [body, "marker"]}
    mails = server.mails(2)
    assert {mail["Message-ID"] for mail in mails} == set(sent)
    for mail in mails:
        wanted = sent[mail["Message-ID"]]
        assert mail.get_content().replace("\r\n", "\n") == wanted.replace("\r\n", "\n").replace("\r", "\n")


RECIPIENTS = [
    "attacker@evil.example",
    "Support@example.com",
    "support@example.com ",
    " support@example.com",
    "<support@example.com>",
    "support@example.com,attacker@evil.example",
    "support@example.com;attacker@evil.example",
    "support@example.com\r\nBcc: attacker@evil.example",
    "support@example.com\nRCPT TO:<attacker@evil.example>",
    "support@example.com>\r\nRCPT TO:<attacker@evil.example",
    "support@example.com\x00@evil.example",
    "support@example.com.evil.example",
    "support@examp1e.com",
    "ѕupport@example.com",
    "support@exаmple.com",
    "support@example。com",
    "support\u200b@example.com",
    '"support@example.com"@evil.example',
    "support%evil.example@example.com",
    "@evil.example:support@example.com",
    "admin@example.com, support@example.com",
    "",
    "*",
]


@pytest.mark.parametrize("recipient", RECIPIENTS)
def test_other_recipients_are_refused(send, server, recipient):
    answer = send(recipient=recipient)
    assert answer["denials"][0]["code"] in ("recipient_not_allowed", "invalid_arguments"), answer
    assert "support@example.com" in answer["denials"][0]["hint"] or answer["denials"][0]["code"] == "invalid_arguments"
    assert server.is_empty


@pytest.mark.parametrize("recipient", [["support@example.com"], {"a": 1}, 5, None])
def test_a_recipient_is_one_text(send, recipient):
    assert send(recipient=recipient)["denials"][0]["code"] == "invalid_arguments"


@pytest.mark.parametrize("subject", ["a\r\nBcc: attacker@evil.example", "a\nb", "a\rb", "a\x00b", "a\x0bb", "a\u2028b", "a\u0085b", "\u202egnp.exe", "x" * 256, "a\tb"])
def test_subjects_that_are_no_plain_line_are_refused(send, server, subject):
    assert send(subject=subject)["denials"][0]["code"] in ("mail_not_allowed", "invalid_arguments")
    assert server.is_empty


def test_other_arguments_change_nothing(send, server):
    assert not send(more={"bcc": "attacker@evil.example", "cc": ["x@evil.example"], "from": "boss@example.com", "headers": {"X": "y"}, "attachments": ["/etc/passwd"]})["denials"]
    (mail,) = server.mails(1)
    assert mail["From"] == "agent@example.com" and mail["Bcc"] is None and mail["Cc"] is None and "passwd" not in mail.as_string()


def test_too_long_is_refused(send):
    assert send(body="x" * 2000, max_bytes=1024)["denials"][0]["code"] == "mail_not_allowed"


def test_without_tls_nothing_is_sent_unless_the_policy_says_so(send, server):
    answer = send(tls="required")
    assert answer["failed"] and "not sent" in answer["result"]["error"]
    assert not send(tls="try")["failed"]
    assert len(server.mails(1)) == 1


def test_what_the_server_refuses_is_told(send):
    answer = send(recipient="full@example.com", recipients=["full@example.com"])
    assert answer["failed"] and "550" in answer["result"]["error"], answer


def test_nobody_there(send):
    answer = send(server="smtp://127.0.0.1:1")
    assert answer["failed"] and "not sent" in answer["result"]["error"]
