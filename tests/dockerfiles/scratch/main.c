#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(void) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(8080)};
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 16)) return 1;
    for (;;) {
        char request[4096], greeting[1024], answer[2048];
        int client = accept(listener, 0, 0);
        if (read(client, request, sizeof request) > 0) {
            int file = open("greeting.txt", O_RDONLY);
            ssize_t length = read(file, greeting, sizeof greeting);
            close(file);
            int size = snprintf(answer, sizeof answer, "HTTP/1.1 200 OK\r\nContent-Length: %zd\r\nConnection: close\r\n\r\n%.*s",
                                length, (int)length, greeting);
            if (write(client, answer, size) < 0) return 1;
        }
        close(client);
    }
}
