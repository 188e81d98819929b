from django.shortcuts import redirect, render
from django.urls import path

counted = 0


def home(request):
    global counted
    if request.method == "POST":
        counted += 1
        return redirect("/")
    return render(request, "home.html", {"count": counted})


urlpatterns = [path("", home)]
