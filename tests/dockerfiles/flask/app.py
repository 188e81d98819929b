from pathlib import Path

from flask import Flask, jsonify

app = Flask(__name__)


@app.get("/")
def index():
    return jsonify(greeting=Path("/app/greeting.txt").read_text().strip(), framework="flask")


@app.get("/health")
def health():
    return "ok"
