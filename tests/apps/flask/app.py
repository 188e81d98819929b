from flask import Flask, redirect, request, session, url_for

app = Flask(__name__)
app.secret_key = "only-for-tests"

PAGE = """<!doctype html>
<html lang="en">
  <head><title>Flask app</title><link rel="icon" href="data:,"></head>
  <body><h1>Flask says hello</h1><form method="post"><button>Counted {count}</button></form></body>
</html>"""


@app.route("/", methods=["GET", "POST"])
def home():
    if request.method == "POST":
        session["count"] = session.get("count", 0) + 1
        return redirect(url_for("home", _external=True))
    return PAGE.format(count=session.get("count", 0))


if __name__ == "__main__":
    app.run(debug=True)
